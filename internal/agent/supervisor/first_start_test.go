package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/instance"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// first is a start of a new process that is after db, which is stopped.
func (r *rig) first(spec *process.Spec) (item string) {
	r.t.Helper()
	db := r.spec("db")
	db.Ready = &v1.Ready{Alive: lasting(0), Within: lasting(20 * time.Second)}
	r.do(process.Register, "db", db)
	spec.After = map[string]string{"db": string(process.AfterReady)}
	return r.ordered(process.Start, map[string]*process.Spec{"web": spec}, "web")["web"]
}

// shows fails unless a process that is not stored is under way, with words in its cause.
func (r *rig) shows(name, words string) {
	r.t.Helper()
	s, spec, ok := r.Snapshot(id(name))
	if !ok || s.State != "operating" || !s.Hosted || s.Want != process.WantRunning || s.Revision != 0 || spec == nil ||
		!strings.Contains(s.Cause.Text, words) {
		r.t.Errorf("%s is %+v (%v), want it under way: %s", name, s, ok, words)
	}
	if _, stored := r.disk.record(id(name)); stored {
		r.t.Errorf("%s is stored before its outcome", name)
	}
	if !slices.Contains(r.ProcessIDs(), id(name)) {
		r.t.Errorf("%s is not known", name)
	}
}

// TestFirstStartIsSeen: lists show a process from the begin of its first start.
func TestFirstStartIsSeen(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		spec := r.copy("web", 10*time.Second)
		spec.Beside = process.StartBeside
		item := r.ordered(process.Start, map[string]*process.Spec{"web": spec}, "web")["web"]
		r.pass(5 * time.Second)
		r.shows("web", "start under way")
		s, shown, _ := r.Snapshot(id("web"))
		if shown.Beside != "" {
			r.t.Error("what is for this order alone is shown as part of the spec")
		}
		if s.Instance.PID <= 0 {
			r.t.Errorf("the new instance is not shown: %+v", s.Instance)
		}
		r.pass(10 * time.Second)
		r.expect(item, process.None, "success")
		if s := r.state("web", "running", true); s.Revision == 0 {
			r.t.Error("it has no revision")
		}
	})
}

// TestFirstStartOfOthers: a start of GSE is shown when it has succeeded.
func TestFirstStartOfOthers(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.submit(process.Start, "web", r.spec("web"))
		r.pass(time.Second / 2)
		if _, _, ok := r.Snapshot(id("web")); ok {
			r.t.Error("it is shown before it has succeeded")
		}
		r.pass(time.Minute)
		r.state("web", "running", true)
	})
}

// TestRefusedFirstStartLeavesNothing: a start that changes nothing registers nothing, and lists forget it.
func TestRefusedFirstStartLeavesNothing(t *testing.T) {
	owned(t, func(_ *testing.T, r *rig, o *owner) {
		o.forbids(process.Start)
		item := r.ordered(process.Start, map[string]*process.Spec{"web": r.copy("web", 0)}, "web")["web"]
		r.pass(time.Second)
		r.expect(item, process.Failed, "no start here")
		if s, _, ok := r.Snapshot(id("web")); ok || len(r.ProcessIDs()) > 0 {
			r.t.Errorf("it is still there: %+v", s)
		}
		if all := r.records("web"); len(all) > 0 {
			r.t.Errorf("the records of what nobody has seen: %+v", all)
		}
	})
}

// TestFirstStartInVain: a new process that has waited without success is hosted, also over a restart of the agent. It
// starts when the process that it is after is up, whatever its restart policy says.
func TestFirstStartInVain(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		bubble(t, func(_ *testing.T, r *rig) {
			spec := r.copy("web", 0)
			spec.Restart = &v1.Restart{When: process.Never}
			item := r.first(spec)
			r.pass(10 * time.Second)
			r.shows("web", "ns/db is not ready (stopped)")
			r.pass(time.Minute)
			r.expect(item, process.Failed, "not begun after a wait of 20s: ns/db is not ready (stopped); drover starts it as soon "+
				"as its `after` is met")
			if restarts {
				r.kill()
				r.begin()
				r.pass(time.Minute)
			}
			if s := r.state("web", "backoff", true); s.Cause.ID != process.CauseWaitsForOthers ||
				!strings.Contains(s.Cause.Text, "it waits: ns/db is not ready (stopped)") {
				r.t.Errorf("while it waits: %+v", s.Cause)
			}
			r.do(process.Start, "db", nil)
			r.pass(10 * time.Second)
			r.state("web", "running", true)
		})
	}
}

// TestFirstStartInVainBesideACopy: a start beside a copy does not wait for others, and says why it fails. What a start
// would refuse is not launched later either.
func TestFirstStartInVainBesideACopy(t *testing.T) {
	for _, late := range []bool{false, true} {
		bubble(t, func(_ *testing.T, r *rig) {
			begin := func() {
				r.SetCopies(instance.UnwatchedCopy{ID: r.Spawn("web", file("web"), ""), SameLine: true})
			}
			if !late {
				begin()
			}
			item := r.first(r.copy("web", 0))
			r.pass(time.Second)
			if late {
				begin()
				r.pass(time.Minute)
			}
			if o, _ := r.sink.outcome(item); o.Fault != process.Failed || o.Hosted || o.Cause != process.CauseCopy ||
				!strings.HasPrefix(o.Text, "nothing was done: a copy of the process runs that drover does not watch: pid ") {
				r.t.Errorf("late %v: %+v", late, o)
			}
			if s, _, ok := r.Snapshot(id("web")); ok {
				r.t.Errorf("it is still there: %+v", s)
			}
			if all := r.records("web"); late && (len(all) < 2 || !all[len(all)-1].Shown.Gone) {
				r.t.Errorf("the records of it: %+v", all)
			}
		})
	}
}

// TestStoppedProcessInVain: a start that has waited without success is a wish also for a process that has run before.
func TestStoppedProcessInVain(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		spec := r.copy("web", 0)
		r.do(process.Start, "web", spec)
		r.do(process.Stop, "web", nil)
		item := r.first(spec)
		r.pass(time.Minute)
		if o, _ := r.sink.outcome(item); o.Fault != process.Failed || !o.Hosted {
			r.t.Errorf("%+v", o)
		}
		r.state("web", "backoff", true)
		r.kill()
		r.begin()
		r.pass(time.Minute)
		r.state("web", "backoff", true)
		r.do(process.Start, "db", nil)
		r.pass(10 * time.Second)
		r.state("web", "running", true)
	})
}

// TestStartInVainOfWhatRuns: such a start changes nothing for the process that runs, and not what follows its end.
func TestStartInVainOfWhatRuns(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		spec := r.own("web", v1.Restart{When: process.OnFailure})
		r.do(process.Start, "web", spec)
		r.first(spec)
		r.pass(time.Minute)
		s := r.state("web", "running", true)
		r.Exit(r.instance("web"), 0)
		r.pass(time.Minute)
		if now := r.state("web", "finished", true); now.Restarts != s.Restarts {
			t.Errorf("it was relaunched: %+v", now)
		}
	})
}

// TestStartThatMustNotBeRepeated: an end within the check of a start is final if the policy says so, as any other end.
func TestStartThatMustNotBeRepeated(t *testing.T) {
	for name, restart := range map[string]v1.Restart{
		"never_on": {When: process.Always, NeverOn: []v1.Status{"3"}}, "never": {When: process.Never},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				spec := r.copy("web", time.Second)
				spec.Restart = &restart
				r.Script("exec ./web", operationtest.Script{Takes: time.Millisecond, Code: 3})
				item := r.ordered(process.Start, map[string]*process.Spec{"web": spec}, "web")["web"]
				r.pass(time.Hour)
				if o, ok := r.sink.outcome(item); !ok || o.Fault != process.CheckFailed {
					t.Errorf("%+v, %v", o, ok)
				}
				r.ran("exec ./web")
				s := r.state("web", "given-up", true)
				if !strings.Contains(s.Cause.Text, "not relaunched, because its restart policy forbids it after this end") {
					t.Errorf("%+v", s.Cause)
				}
				r.kill()
				r.begin()
				r.pass(time.Minute)
				r.state("web", "given-up", true)
			})
		})
	}
}

// TestFirstRunInVain: a process that does not stay up is registered, and runs when somebody starts it.
func TestFirstRunInVain(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		spec := r.copy("web", 0)
		spec.Once = true
		item := r.first(spec)
		r.pass(time.Minute)
		r.expect(item, process.Failed, "not begun after a wait of 20s: ns/db is not ready (stopped)")
		if s := r.state("web", "stopped", false); s.Want != process.WantRunning || s.Cause.ID != process.CauseWaitsForOthers {
			r.t.Errorf("%+v", s)
		}
		r.do(process.Start, "db", nil)
		r.pass(time.Minute)
		r.ran("start db")
	})
}

// TestFirstStartIsEnded: a kill or a stop without a spec ends a first start, whether it waits or has begun. Then the
// process is stopped, and not gone.
func TestFirstStartIsEnded(t *testing.T) {
	for _, op := range []process.Op{process.Kill, process.Stop} {
		for _, waits := range []bool{true, false} {
			bubble(t, func(_ *testing.T, r *rig) {
				spec := r.copy("web", 10*time.Second)
				item := ""
				if waits {
					item = r.first(spec)
				} else {
					item = r.ordered(process.Start, map[string]*process.Spec{"web": spec}, "web")["web"]
				}
				r.pass(time.Second)
				r.shows("web", "start")
				by := r.ordered(op, nil, "web")["web"]
				r.pass(20 * time.Second)
				if o, ok := r.sink.outcome(item); !ok || o.Fault == process.None && op == process.Kill {
					r.t.Errorf("%s, waits %v: the start: %+v, %v", op, waits, o, ok)
				}
				if o, ok := r.sink.outcome(by); !ok || o.Fault != process.None && o.Fault != process.NotRunning {
					r.t.Errorf("%s, waits %v: %+v, %v", op, waits, o, ok)
				}
				if s := r.state("web", "stopped", false); s.Want != process.WantStopped {
					r.t.Errorf("%s, waits %v: %+v", op, waits, s)
				}
				r.do(process.Start, "web", nil) // the spec is there
			})
		}
	}
}

// TestCheckThatAStopEnds: the outcome of a start does not name a time that it did not have.
func TestCheckThatAStopEnds(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		spec := r.copy("web", 0)
		spec.Ready = &v1.Ready{Exec: "is-ready", Within: lasting(30 * time.Second)}
		r.Script("is-ready", operationtest.Script{Code: 1})
		item := r.ordered(process.Start, map[string]*process.Spec{"web": spec}, "web")["web"]
		r.pass(2 * time.Second)
		r.ordered(process.Stop, nil, "web")
		r.pass(time.Minute)
		if o, _ := r.sink.outcome(item); !strings.Contains(o.Text, "not ready when a stop came: exit status 1") {
			r.t.Errorf("%+v", o)
		}
		r.state("web", "stopped", false)
	})
}

// TestFirstStartIsSeenAgain: the next agent shows what it continues.
func TestFirstStartIsSeenAgain(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.Script("exec ./web", operationtest.Script{Takes: 1000 * time.Hour})
		item := r.ordered(process.Start, map[string]*process.Spec{"web": r.copy("web", 30*time.Second)}, "web")["web"]
		r.pass(5 * time.Second)
		r.kill()
		r.begin()
		r.pass(5 * time.Second)
		r.shows("web", "start under way")
		r.pass(time.Minute)
		if _, ok := r.sink.outcome(item); !ok {
			r.t.Error("it has no outcome")
		}
	})
}

// TestLateStartIsAStart: the launch of a process that has waited for others is its start, and no relaunch. Its next
// launch is a relaunch.
func TestLateStartIsAStart(t *testing.T) {
	bubble(t, func(_ *testing.T, r *rig) {
		r.first(r.copy("web", 0))
		r.Script("exec ./web", operationtest.Script{Takes: 30 * time.Second, Code: 1})
		r.pass(time.Minute)
		r.kill()
		r.begin()
		r.pass(time.Minute)
		r.state("web", "backoff", true)
		r.do(process.Start, "db", nil)
		r.pass(10 * time.Second)
		s := r.state("web", "running", true)
		history := r.sink.history(id("web"))
		if s.Restarts != 0 || history[len(history)-1] != "started starting→running" {
			r.t.Errorf("%d relaunches, history %q", s.Restarts, history)
		}
		r.pass(30 * time.Second)
		history = r.sink.history(id("web"))
		if s, _, _ = r.Snapshot(id("web")); s.Restarts != 1 ||
			!slices.Contains(history, "relaunched starting→running exit-status") {
			r.t.Errorf("%d relaunches, history %q", s.Restarts, history)
		}
	})
}

// TestFirstStartInVainIsQuick: a new process stays wanted however short its start may wait.
func TestFirstStartInVainIsQuick(t *testing.T) {
	for _, within := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 4 * time.Second} {
		bubble(t, func(_ *testing.T, r *rig) {
			spec := r.copy("web", 0)
			spec.Ready.Within = lasting(within)
			item := r.first(spec)
			r.pass(10 * time.Second)
			if o, _ := r.sink.outcome(item); !o.Hosted || !strings.Contains(o.Text, "as soon as its `after` is met") {
				r.t.Errorf("%d: %+v", within, o)
			}
			r.state("web", "backoff", true)
			all := r.records("web")
			if len(all) == 0 || all[len(all)-1].Shown.Gone {
				r.t.Errorf("%d: %+v", within, all)
			}
		})
	}
}
