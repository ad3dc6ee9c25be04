package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// kept runs fn with a process a that drover has taken over from a supervisord.
func kept(t *testing.T, fn func(t *testing.T, r *rig, s *operationtest.Supervisord, who instance.Identity)) {
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
		r.Submit([]record.Entry{e})
		r.pass(time.Second)
		r.keptAs(who)
		fn(t, r, s, who)
	})
}

// child starts a child of supervisord; sameLine says that its command line is that of the spec.
func (r *rig) child(s *operationtest.Supervisord, sameLine bool) instance.Identity {
	id := r.Fork(s.ID, "a")
	r.SetCopies(instance.UnwatchedCopy{ID: id, SameLine: sameLine, Since: time.Now()})
	return id
}

// keptAs fails unless drover watches this process, which supervisord keeps.
func (r *rig) keptAs(who instance.Identity) {
	r.t.Helper()
	if s := r.state("a", "running", true); s.Instance.PID != who.PID || s.Cause.ID != process.CauseKept {
		r.t.Errorf("drover watches pid %d, want %d; cause %+v", s.Instance.PID, who.PID, s.Cause)
	}
}

// TestOtherSupervisorLetsGo: a process that its supervisord has ended and does not start again is relaunched, although
// the supervisord lives on. Until then drover says what it waits for.
func TestOtherSupervisorLetsGo(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		kept(t, func(t *testing.T, r *rig, _ *operationtest.Supervisord, who instance.Identity) {
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
			caused(t, r.state("a", "running", true), process.CauseRelaunched)
			if history := r.sink.history(id("a")); !restarted && !slices.Contains(history, "relaunched starting→running exited") {
				t.Errorf("events %q", history)
			}
		})
	}
}

// TestOtherSupervisorStartsAgain: drover watches what the supervisord starts instead, and starts nothing beside it.
func TestOtherSupervisorStartsAgain(t *testing.T) {
	for name, sameLine := range map[string]bool{"same line": true, "a program that changes its command line": false} {
		t.Run(name, func(t *testing.T) {
			kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who instance.Identity) {
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

// TestOtherSupervisorHasAnother: a process that supervisord has started earlier is not the next instance.
func TestOtherSupervisorHasAnother(t *testing.T) {
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who instance.Identity) {
		r.pass(time.Minute)
		r.child(s, true)
		r.pass(time.Minute)
		r.Exit(who, 0)
		r.pass(30 * time.Second)
		r.ran("exec ./a")
	})
}

// TestOtherSupervisorRestartsWhileNoAgentRuns: the next agent finds what has been started meanwhile.
func TestOtherSupervisorRestartsWhileNoAgentRuns(t *testing.T) {
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who instance.Identity) {
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

// TestOtherSupervisorDies: drover keeps the process from then on.
func TestOtherSupervisorDies(t *testing.T) {
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who instance.Identity) {
		r.Exit(s.ID, 0)
		r.pass(30 * time.Second)
		r.Exit(who, 0)
		r.pass(2 * time.Second)
		r.ran("exec ./a")
	})
}

// TestKeptIsNotEnded: drover refuses to end a process that supervisord would start again, for every caller. It refuses
// to start the process while supervisord may be about to do so. After the hand-over all of it works.
func TestKeptIsNotEnded(t *testing.T) {
	kept(t, func(t *testing.T, r *rig, s *operationtest.Supervisord, who instance.Identity) {
		const text = "nothing was done: supervisord (pid 100) still keeps the process, and may start it again. First " +
			"remove its program from the configuration, then `supervisorctl update`"
		refused := func(text string, ops ...process.Op) {
			t.Helper()
			for _, op := range ops {
				item := r.submit(op, "a", nil)
				r.pass(time.Second)
				r.expect(item, process.Failed, text)
				if o, _ := r.sink.outcome(item); o.Cause != process.CauseKept || !o.Hosted {
					t.Errorf("%s: %+v", op, o)
				}
			}
		}
		refused(text, process.Stop, process.Restart, process.Kill)
		r.keptAs(who)
		r.Exit(who, 0)
		r.pass(time.Second)
		refused("nothing was done: supervisord (pid 100) has kept the process, which has ended: drover relaunches it "+
			"within 30 s unless that program does", process.Start, process.Restart)
		r.pass(30 * time.Second)
		r.ran("exec ./a")
		for _, op := range []process.Op{process.Restart, process.Stop} {
			r.do(op, "a", nil)
		}
		r.ran("exec ./a", "exec ./a")
		r.state("a", "stopped", false)
	})
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, _ instance.Identity) {
		r.Exit(s.ID, 0)
		r.do(process.Stop, "a", nil) // nobody keeps it
		r.state("a", "stopped", false)
	})
}

// TestStopAfterTheEnd: a stop while drover waits for the supervisor says that nothing runs. What supervisord starts
// afterwards is not hidden.
func TestStopAfterTheEnd(t *testing.T) {
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, who instance.Identity) {
		r.Exit(who, 0)
		r.pass(time.Second)
		item := r.submit(process.Stop, "a", nil)
		r.pass(time.Second)
		r.expect(item, process.NotRunning, "no need to stop the process(a) that is not running")
		r.child(s, true)
		r.pass(30 * time.Second)
		r.state("a", "running", false)
		r.ran()
	})
}
