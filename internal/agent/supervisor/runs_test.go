package supervisor_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"drover/internal/agent/operation/operationtest"

	"drover/internal/process"
)

// runs fails unless exactly these runs are needed.
func (r *rig) runs(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(r.Runs())); !slices.Equal(got, want) {
		r.t.Errorf("runs %q are needed, want %q", got, want)
	}
}

// TestRunsUnderWay: what a command has left running is needed from its launch on, although nobody knows that as the
// latest run before its outcome is on disk, which may take for ever.
func TestRunsUnderWay(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.disk.refuse(errors.New("no space left on device"))
		item := r.submit(process.Start, "a", r.spec("a"))
		r.pass(500 * time.Millisecond)
		r.runs(operationtest.RunID(id("a"), 1))
		r.pass(time.Minute)
		if _, over := r.sink.outcome(item); over {
			t.Fatal("its outcome was stored on a full disk")
		}
		r.runs(operationtest.RunID(id("a"), 1))
		r.disk.refuse(nil)
		r.pass(10 * time.Second)
		r.expect(item, process.None, "success")
		r.runs(operationtest.RunID(id("a"), 1))

		r.do(process.Restart, "a", r.spec("a"))
		r.runs(operationtest.RunID(id("a"), 2))
		r.Kill(file("a"))
		r.pass(500 * time.Millisecond)
		r.runs(operationtest.RunID(id("a"), 2), operationtest.RunID(id("a"), 3))
		r.pass(time.Minute)
		r.runs(operationtest.RunID(id("a"), 3))
		r.do(process.Stop, "a", r.spec("a"))
		r.do(process.Unregister, "a", r.spec("a"))
		r.runs()
	})
}

// TestRunsOfAnEarlierAgent are needed while their operation waits to go on, and so are those of its relaunches. That
// the time of their commands is up by then makes no failure of what has ended well meanwhile.
func TestRunsOfAnEarlierAgent(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.do(process.Start, "b", r.spec("b"))
		r.runs(operationtest.RunID(id("b"), 1))
		item := r.submit(process.Start, "a", r.spec("a"))
		r.pass(500 * time.Millisecond)
		r.Kill(file("b"))
		r.pass(700 * time.Millisecond)
		r.runs(operationtest.RunID(id("b"), 1), operationtest.RunID(id("a"), 2), operationtest.RunID(id("b"), 3))
		r.kill()
		r.confirmed = make(chan struct{})
		r.begin()
		r.runs(operationtest.RunID(id("b"), 1), operationtest.RunID(id("a"), 2), operationtest.RunID(id("b"), 3))
		r.pass(time.Minute) // it has been seen meanwhile that another instance of b is there
		r.runs(operationtest.RunID(id("a"), 2), operationtest.RunID(id("b"), 3))
		close(r.confirmed)
		r.pass(time.Minute)
		r.expect(item, process.None, "success")
		r.runs(operationtest.RunID(id("a"), 2), operationtest.RunID(id("b"), 3))
		r.state("b", "running", true)
		r.ran("start b", "start a", "start b")
	})
}
