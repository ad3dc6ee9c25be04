package supervisor_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
)

// TestRunThatTheDiskDoesNotKnow: a foreground process goes on that was started after the copy of the disk was made, and
// the agent starts no second one. Its end is an end like any other.
func TestRunThatTheDiskDoesNotKnow(t *testing.T) {
	for name, known := range map[string]bool{"the copy knows an earlier run": true, "the copy knows no run": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.do(process.Start, "a", r.copy("a", 0))
				r.pass(time.Minute)
				old := bytes.Clone(r.disk.runtimes[id("a")])
				r.do(process.Restart, "a", nil)
				r.pass(time.Minute)
				rt := r.disk.runtime(id("a"))
				r.kill()
				delete(r.disk.runtimes, id("a"))
				if known {
					r.disk.runtimes[id("a")] = old
				}
				r.begin()
				r.pass(time.Minute)
				got := r.state("a", "running", true)
				if got.Instance.PID != rt.Process.PID || !strings.Contains(got.Message, "its disk has no record of that") {
					t.Errorf("status %+v, want pid %d", got, rt.Process.PID)
				}
				if history := r.sink.history(id("a")); !slices.ContainsFunc(history, func(e string) bool {
					return strings.HasPrefix(e, "found") || strings.HasPrefix(e, "main-pid-changed")
				}) {
					t.Errorf("events %q", history)
				}
				r.ran("exec ./a", "exec ./a")
				r.Exit(*rt.Process, 1)
				r.pass(30 * time.Second)
				r.state("a", "running", true)
				r.ran("exec ./a", "exec ./a", "exec ./a")
			})
		})
	}
}

// blind is an owner whose host does not let drover look at processes.
type blind struct{ *owner }

func (blind) MayLook(process.ID, *process.Spec) error {
	return process.Errorf(process.Failed, "no process for you")
}

// TestOwnerForbidsTheLook: what drover may not look at, it does not take over either.
func TestOwnerForbidsTheLook(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.copy("a", 0))
		r.pass(time.Minute)
		rt := r.disk.runtime(id("a"))
		r.kill()
		delete(r.disk.runtimes, id("a"))
		r.policy = blind{&owner{}}
		r.begin()
		r.pass(time.Second)
		if s, _, _ := r.Snapshot(id("a")); s.Instance.PID == rt.Process.PID {
			t.Errorf("it has taken over %+v", s)
		}
	})
}
