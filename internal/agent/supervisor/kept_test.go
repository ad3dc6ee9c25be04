package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// kept runs fn with a process a that drover has taken over from a supervisord.
func kept(t *testing.T, fn func(t *testing.T, r *rig, s *operationtest.Supervisord, who procfs.Identity)) {
	t.Helper()
	bubble(t, func(t *testing.T, r *rig) {
		s := operationtest.NewSupervisord(r.World)
		r.stop()
		r.claims = s
		r.begin()
		who := r.child(s, true)
		spec := r.copy("a", 0)
		spec.Beside = process.Adopt
		e := r.accept(process.Start, "a", spec)
		e.Ordered = true
		r.Submit([]specstore.Entry{e})
		r.pass(time.Second)
		r.keptAs(who)
		fn(t, r, s, who)
	})
}

// child starts a child of supervisord; sameLine says that its command line is that of the spec.
func (r *rig) child(s *operationtest.Supervisord, sameLine bool) procfs.Identity {
	id := r.Fork(s.ID, "a")
	r.SetCopies(instance.Copy{ID: id, SameLine: sameLine, Since: time.Now()})
	return id
}

// keptAs fails unless drover watches this process, which supervisord keeps.
func (r *rig) keptAs(who procfs.Identity) {
	r.t.Helper()
	if s := r.state("a", "running", true); s.Instance.PID != who.PID || s.Cause.ID != process.CauseKept {
		r.t.Errorf("drover watches pid %d, want %d; cause %+v", s.Instance.PID, who.PID, s.Cause)
	}
}

// TestKeeperLetsGo: a process that its supervisord has ended and does not start again is relaunched, although the
// supervisord lives on. Until then drover says what it waits for.
func TestKeeperLetsGo(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		kept(t, func(t *testing.T, r *rig, _ *operationtest.Supervisord, who procfs.Identity) {
			r.Exit(who, 0)
			r.pass(20 * time.Second)
			if s := r.state("a", "stopped", true); !strings.Contains(s.Message, "has kept the process, which has ended") {
				t.Errorf("message %q", s.Message)
			}
			if restarted {
				r.kill()
				r.begin()
				r.pass(20 * time.Second) // the agent waits anew
			}
			r.ran()
			r.pass(10 * time.Second)
			r.ran("exec ./a")
			if s := r.state("a", "running", true); s.Cause.ID != "" {
				t.Errorf("cause %+v", s.Cause)
			}
			if history := r.sink.history(id("a")); !restarted && !slices.Contains(history, "relaunched starting→running exited") {
				t.Errorf("events %q", history)
			}
		})
	}
}

// TestKeeperStartsAgain: drover watches what the supervisord starts instead, and starts nothing beside it.
func TestKeeperStartsAgain(t *testing.T) {
	for name, sameLine := range map[string]bool{"same line": true, "a program that changes its command line": false} {
		t.Run(name, func(t *testing.T) {
			kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who procfs.Identity) {
				for range 3 {
					r.Exit(who, 1)
					r.pass(4 * time.Second)
					who = r.child(s, sameLine)
					r.pass(26 * time.Second)
					r.keptAs(who)
				}
				r.pass(time.Hour)
				r.ran()
				r.keptAs(who)
			})
		})
	}
}

// TestKeeperHasAnother: a process that supervisord has started earlier is not the next instance.
func TestKeeperHasAnother(t *testing.T) {
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who procfs.Identity) {
		r.pass(time.Minute)
		r.child(s, true)
		r.pass(time.Minute)
		r.Exit(who, 0)
		r.pass(30 * time.Second)
		r.ran("exec ./a")
	})
}

// TestKeeperRestartsWhileNoAgentRuns: the next agent finds what has been started meanwhile.
func TestKeeperRestartsWhileNoAgentRuns(t *testing.T) {
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who procfs.Identity) {
		r.kill()
		r.Exit(who, 0)
		who = r.child(s, true)
		r.pass(time.Minute)
		r.begin()
		r.pass(30 * time.Second)
		r.ran()
		r.keptAs(who)
	})
}

// TestKeeperDies: drover keeps the process from then on.
func TestKeeperDies(t *testing.T) {
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who procfs.Identity) {
		r.Exit(s.ID, 0)
		r.pass(30 * time.Second)
		r.Exit(who, 0)
		r.pass(2 * time.Second)
		r.ran("exec ./a")
	})
}
