package supervisor_test

import (
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/notify"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// cause fails unless the main cause of a process is this one; empty is none.
func (r *rig) cause(name string, want process.CauseID) {
	r.t.Helper()
	s, _, _ := r.Snapshot(id(name))
	if s.Cause.ID != want {
		r.t.Errorf("the cause of %s is %+v, want %q", name, s.Cause, want)
	}
}

// fails carries out an operation that must fail.
func (r *rig) fails(op process.Op, name string) {
	r.t.Helper()
	item := r.submit(op, name, nil)
	r.pass(2 * time.Second)
	if o, ok := r.sink.outcome(item); !ok || o.Fault == process.None {
		r.t.Fatalf("%s %s: %+v", op, name, o)
	}
}

// TestCauseEndsWithItsCopy: a start that failed beside a copy is no cause once the copy has gone.
func TestCauseEndsWithItsCopy(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.do(process.Register, "web", r.copy("web", 0))
		other := r.Spawn("web", "", "")
		r.SetCopies(instance.UnwatchedCopy{ID: other, SameLine: true})
		r.ordered(process.Start, nil, "web")
		r.pass(time.Minute)
		r.cause("web", process.CauseCopy)
		r.Exit(other, 0)
		r.pass(time.Minute)
		if s, _, _ := r.Snapshot(id("web")); s.Cause.ID == process.CauseCopy {
			r.t.Errorf("the copy has gone, and the cause is %+v", s.Cause)
		}
	})
}

// TestCauseEndsWithTheOtherSupervisor: an operation that was refused because of another supervisor is no cause once
// that supervisor has gone.
func TestCauseEndsWithTheOtherSupervisor(t *testing.T) {
	kept(t, func(_ *testing.T, r *rig, s *operationtest.Supervisord, _ instance.Identity) {
		r.fails(process.Restart, "a")
		r.pass(time.Minute)
		r.cause("a", process.CauseKept)
		r.Exit(s.ID, 0)
		r.pass(time.Minute)
		if s, _, _ := r.Snapshot(id("a")); s.Cause.ID == process.CauseKept || len(s.Further) > 0 {
			r.t.Errorf("supervisord has gone, and the cause is %+v, %+v", s.Cause, s.Further)
		}
	})
}

// TestCauseEndsWithAReload: a reload that works is the end of the cause of one that failed, hosted or not.
func TestCauseEndsWithAReload(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		bubble(t, func(_ *testing.T, r *rig) {
			s := r.copy("web", 0)
			s.Reload = &v1.Reload{Command: "reload web"}
			r.do(process.Start, "web", s)
			if !hosted {
				r.do(process.Unhost, "web", nil)
			}
			r.Script("reload web", operationtest.Script{Code: 1})
			r.fails(process.Reload, "web")
			r.cause("web", process.CauseCommandFailed)
			r.Script("reload web", operationtest.Script{})
			r.do(process.Reload, "web", nil)
			r.cause("web", "")
		})
	}
}

// TestCauseEndsWithAPreflight: a preflight that passes is the end of the cause of a restart that it refused.
func TestCauseEndsWithAPreflight(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		s := r.copy("web", 0)
		s.Preflight = &v1.Before{Run: "look"}
		r.do(process.Start, "web", s)
		r.Script("look", operationtest.Script{Code: 1})
		r.fails(process.Restart, "web")
		r.cause("web", process.CausePreflight)
		r.fails(process.Preflight, "web")
		r.cause("web", process.CausePreflight)
		r.Script("look", operationtest.Script{})
		r.do(process.Preflight, "web", nil)
		r.cause("web", "")
	})
}

// TestCauseEndsWithASuccessor: the end of an instance is no cause of one of the same run that has its place, as after
// an upgrade of the program.
func TestCauseEndsWithASuccessor(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.do(process.Start, "web", r.spec("web"))
		_, rt, _ := r.Running(id("web"))
		old := *rt.Process
		r.Spawn("web", file("web"), rt.Run)
		r.Exit(old, 0)
		r.pass(time.Minute)
		if s := r.state("web", "running", true); s.Instance.PID == old.PID {
			r.t.Errorf("it still shows pid %d", old.PID)
		}
		r.cause("web", "")
	})
}

// TestCauseEndsWithALateReload: a process that confirms its reload after the time for that has reloaded.
func TestCauseEndsWithALateReload(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		s, runs := notifier(r, false)
		s.Reload, s.Timeouts = &v1.Reload{Command: "reload a"}, &v1.Timeouts{Reload: lasting(5 * time.Second)}
		r.Script("reload a", operationtest.Script{End: func(string) {
			r.says(last(runs), func(said *notify.State) { said.Reloading = true })
		}})
		r.do(process.Start, "a", s)
		item := r.submit(process.Reload, "a", nil)
		r.pass(10 * time.Second)
		if o, _ := r.sink.outcome(item); o.Cause != process.CauseNotReady {
			r.t.Errorf("the reload: %+v", o)
		}
		r.cause("a", process.CauseNotReady)
		r.says(last(runs), func(said *notify.State) { said.Reloading, said.Reloads = false, said.Reloads+1 })
		r.pass(time.Second)
		r.cause("a", "")
	})
}
