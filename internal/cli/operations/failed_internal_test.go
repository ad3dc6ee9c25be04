package operations

import (
	"testing"

	"drover/client"
	"drover/internal/cli/list"
	"drover/internal/process"
)

// TestFailedRun: a single run that ended without success has failed, for is-failed as for each wait.
func TestFailedRun(t *testing.T) {
	for _, c := range []struct {
		state, cause, word string
		stopped, hopeless  bool // for a wait until it is stopped
	}{
		{process.StateFinished, "", "inactive", true, false},
		{process.StateFinished, "finished", "inactive", true, false},
		{process.StateFinished, "operation-queued", "inactive", true, false},
		{process.StateFinished, "run-failed", "failed", false, true},
		{process.StateFinished, "command-not-found", "failed", false, true},
		{process.StateGivenUp, "exit-status", "failed", true, false},
		{process.StateStopped, "stopped-by-operation", "inactive", true, false},
	} {
		p := client.Process{State: c.state}
		if c.cause != "" {
			p.Cause = &client.Cause{ID: c.cause}
		}
		w := list.StateWait{Until: list.UntilStopped}
		if got := list.UnitWord(&p); got != c.word {
			t.Errorf("%+v: the word is %s", c, got)
		}
		if got := w.Holds(p); got != c.stopped {
			t.Errorf("%+v: stopped is %v", c, got)
		}
		if got := w.Hopeless([]client.Process{p}) != nil; got != c.hopeless {
			t.Errorf("%+v: hopeless is %v", c, got)
		}
	}
}

// TestTaskWithFailures: a list and a person see what a task is done with.
func TestTaskWithFailures(t *testing.T) {
	task := client.Task{State: "done", Counts: client.Counts{Targets: 2, OK: 1, Failed: 1}}
	if got := taskColumns()[1].Cell(task); got != "done-with-failures" {
		t.Errorf("the list says %q", got)
	}
}
