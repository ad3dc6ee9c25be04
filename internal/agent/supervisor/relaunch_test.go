package supervisor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// crashing is a start command whose process ends by itself after a while.
func crashing(r *rig, name string, after time.Duration) operationtest.Script {
	return operationtest.Script{Takes: time.Second, End: func(run string) {
		who := r.Spawn(name, file(name), run)
		time.AfterFunc(after, func() { r.Exit(who, 3) })
	}}
}

func TestRelaunchUntilGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.state("a", "running", true)
		at := r.starts("a", crashing(r, "a", 3*time.Second))
		r.Kill(file("a"))
		r.pass(0)
		if s := r.state("a", "starting", true); !strings.Contains(s.Message, "killed by signal 9") ||
			!strings.Contains(s.Message, "start 1 of 4") {
			t.Errorf("message %q says neither why it died nor what is done", s.Message)
		}
		r.pass(5 * time.Second)
		next := "next start at " + time.Now().Add(5*time.Second).UTC().Format(time.RFC3339) + ", attempt 2 of 4"
		for range 2 { // whenever it is read
			if s := r.state("a", "backoff", true); !strings.Contains(s.Message, "exit status 3") ||
				!strings.Contains(s.Message, next) {
				t.Errorf("message %q, want %q", s.Message, next)
			}
			r.pass(4 * time.Second)
		}
		r.pass(time.Hour)
		if want := []float64{0, 10, 20, 30}; !slices.Equal(*at, want) {
			t.Errorf("it was launched at %v, want %v", *at, want)
		}
		s := r.state("a", "given-up", true)
		if !strings.Contains(s.Message, "given up after 4 starts") || s.Instance.PID != -1 {
			t.Errorf("status %+v", s)
		}
		if rec, _ := r.disk.record(id("a")); !rec.GivenUp || rec.Want != process.WantRunning {
			t.Errorf("it is not stored that it was given up: %+v", rec)
		}

		// A start fills the budget again.
		r.do(process.Start, "a", r.spec("a"))
		if s := r.state("a", "running", true); s.Message != "" {
			t.Errorf("message %q of what is over", s.Message)
		}
		if rec, _ := r.disk.record(id("a")); rec.GivenUp {
			t.Error("it is still stored that it was given up")
		}
		at = r.starts("a", crashing(r, "a", 3*time.Second))
		r.Kill(file("a"))
		r.pass(time.Hour)
		if want := []float64{0, 10, 20, 30}; !slices.Equal(*at, want) {
			t.Errorf("it was launched at %v after a start, want %v", *at, want)
		}
	})
}

// TestAgeOfAnOutage: a process that is down and fails again and again is down since its first end, over a restart of the
// agent too. An outage after a healthy run has an age of its own.
func TestAgeOfAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		spec := r.own("a", evenly(10*time.Minute, time.Minute))
		r.do(process.Start, "a", spec)
		healthy := operationtest.Script{Takes: time.Second, End: func(run string) { r.Spawn("a", file("a"), run) }}
		r.Script(line("start", "a"), crashing(r, "a", 30*time.Second))
		outage := func(again bool) int64 {
			began := time.Now()
			r.Exit(r.instance("a"), 3)
			r.pass(25 * time.Minute)
			if again {
				r.kill()
				r.begin()
				r.pass(11 * time.Minute)
			}
			s := r.state("a", "backoff", true)
			if s.Cause.Since/1000 != began.Unix() || s.Cause.ID != process.CauseExitStatus {
				t.Errorf("down since %v, want %v: %+v", time.UnixMilli(s.Cause.Since), began, s.Cause)
			}
			if s.LastExit == nil || s.LastExit.At-s.Cause.Since < (20*time.Minute).Milliseconds() {
				t.Errorf("the last end was %+v", s.LastExit)
			}
			return s.Cause.Since
		}
		first := outage(true)
		r.Script(line("start", "a"), healthy)
		r.pass(30 * time.Minute)
		r.state("a", "running", true)
		r.Script(line("start", "a"), crashing(r, "a", 30*time.Second))
		if second := outage(false); second-first < time.Hour.Milliseconds() {
			t.Errorf("the second outage began %v after the first", time.Duration(second-first)*time.Millisecond)
		}
	})
}

// TestAnotherEndHasItsOwnAge: if a relaunch ends in another way than the run before, the process is down since the last
// end. A relaunch that fails ends no run, so it does not change that.
func TestAnotherEndHasItsOwnAge(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.starts("a", crashing(r, "a", 20*time.Second))
		r.Kill(file("a"))
		r.pass(0)
		ended := time.Now().Add(21 * time.Second) // the command takes a second
		r.Script(line("start", "a"), operationtest.Script{Takes: 5 * time.Second, Code: 127, Output: "/bin/sh: 1: start: not found"})
		r.pass(22 * time.Second)
		for _, want := range []process.CauseID{process.CauseExitStatus, process.CauseCommandMissing} {
			s, _, _ := r.Snapshot(id("a"))
			if s.Cause.ID != want || s.Cause.Since/1000 != ended.Unix() {
				t.Errorf("%s since %v, want %s since %v", s.Cause.ID, time.UnixMilli(s.Cause.Since), want, ended)
			}
			r.kill()
			r.begin()
			r.pass(30 * time.Second)
		}
	})
}

func TestRelaunchWhoseCommandFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		at := r.starts("a", operationtest.Script{Takes: 2 * time.Second, Code: 1, Output: "no config"})
		r.Kill(file("a"))
		r.pass(3 * time.Second)
		if s := r.state("a", "backoff", true); !strings.Contains(s.Message,
			"relaunch 1 failed: Script exit code non-zero. Error msessage: [no config]") {
			t.Errorf("message %q", s.Message)
		}
		r.pass(time.Hour)
		if want := []float64{0, 10, 20, 30}; !slices.Equal(*at, want) {
			t.Errorf("it was launched at %v, want %v", *at, want)
		}
		r.state("a", "given-up", true)
	})
}

// TestHealthyRunRestoresTheBudget: a run that lasts long enough fills it, one that does not, does not.
func TestHealthyRunRestoresTheBudget(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		at := r.starts("a", crashing(r, "a", 61*time.Second))
		r.Kill(file("a"))
		r.pass(62*6*time.Second + time.Second)
		if want := []float64{0, 62, 124, 186, 248, 310, 372}; !slices.Equal(*at, want) {
			t.Errorf("launched at %v, want %v", *at, want)
		}
	})
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		at := r.starts("a", crashing(r, "a", 59*time.Second))
		r.Kill(file("a"))
		r.pass(time.Hour)
		if want := []float64{0, 60, 120, 180}; !slices.Equal(*at, want) {
			t.Errorf("launched at %v, want %v", *at, want)
		}
		r.state("a", "given-up", true)
	})
}

// TestRelaunchesSideBySide: only the starts after a reboot wait for each other.
func TestRelaunchesSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, name := range []string{"a", "b"} {
			r.do(process.Start, name, r.spec(name))
		}
		r.kill()
		r.boots = 1
		r.begin()
		r.Kill(file("a"))
		r.Kill(file("b"))
		r.pass(time.Second)
		r.state("a", "running", true)
		r.state("b", "running", true)
	})
}

// TestWhoIsRelaunched: only what is hosted and resident.
func TestWhoIsRelaunched(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   process.Kind
		op     process.Op
		state  string
		hosted bool
	}{
		{"resident", process.Resident, process.Start, "running", true},
		{"single run", process.SingleRun, process.Start, "finished", true},
		{"periodic", process.Periodic, process.Start, "scheduled", true},
		{"resident, unhosted", process.Resident, process.Unhost, "stopped", false},
		{"resident, after an update", process.Resident, process.Update, "running", true},
		{"resident, after a reload", process.Resident, process.Reload, "running", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				s.SetKind(c.kind, "0 0 1 1 *", 0)
				r.do(process.Start, "a", s)
				if c.op != process.Start {
					r.do(c.op, "a", s)
				}
				r.Kill(file("a"))
				r.pass(time.Minute)
				r.state("a", c.state, c.hosted)
			})
		})
	}
}

// TestHostStopped: hosting a process that does not run starts it one interval later, so that a start that is sent right
// after wins.
func TestHostStopped(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		at := r.starts("a", operationtest.Script{Takes: time.Second, End: func(run string) {
			r.Spawn("a", file("a"), run)
		}})
		r.do(process.Host, "a", s)
		r.pass(9 * time.Second)
		r.state("a", "backoff", true)
		r.pass(5 * time.Second)
		r.state("a", "running", true)
		if want := []float64{10}; !slices.Equal(*at, want) {
			t.Errorf("launched at %v, want %v", *at, want)
		}
	})
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Host, "a", s)
		r.do(process.Start, "a", s)
		r.pass(time.Minute)
		r.ran("start a")
	})
}

// TestStopOfWhatIsDown: a stop or kill of a process that is down says so, and takes it out of hosting: it is not
// started again, in this life of the agent or another, in this boot or another.
func TestStopOfWhatIsDown(t *testing.T) {
	for _, op := range []process.Op{process.Stop, process.Kill} {
		for _, state := range []string{"backoff", "given-up"} {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				r.do(process.Start, "a", s)
				at := r.starts("a", crashing(r, "a", time.Second))
				r.Kill(file("a"))
				r.pass(5 * time.Second)
				if state == "given-up" {
					r.pass(10 * time.Minute)
				}
				r.state("a", state, true)
				launched := len(*at)
				item := r.submit(op, "a", s)
				r.pass(0)
				r.expect(item, process.NotRunning, "no need to "+string(op)+" the process(a) that is not running")
				if o, _ := r.sink.outcome(item); o.Hosted {
					t.Error("the outcome says that it is hosted")
				}
				rest := r.state("a", "stopped", false)
				if rest.Cause.ID != process.CauseStopped {
					t.Errorf("cause %+v", rest.Cause)
				}
				r.pass(10 * time.Minute)
				r.kill()
				r.begin()
				r.pass(10 * time.Minute)
				r.reboot()
				r.begin()
				r.pass(10 * time.Minute)
				r.state("a", "stopped", false)
				if len(*at) != launched {
					t.Errorf("launched at %v, %d of them before the %s", *at, launched, op)
				}
			})
		}
	}
}

// TestLateEnd: an end after a stop that was answered as failed is that stop's, within the time of an operation: the
// process is not started again. After that time it is an end like any other.
func TestLateEnd(t *testing.T) {
	const allowed = 60 * time.Second
	for _, c := range []struct {
		name   string
		after  time.Duration
		during func(r *rig)
		down   bool
	}{
		{"soon after", 3 * time.Second, func(*rig) {}, true},
		{"just in time", allowed - 10*time.Second, func(*rig) {}, true},
		{"too late", allowed + time.Minute, func(*rig) {}, false},
		{"while no agent is there", 3 * time.Second, func(r *rig) { r.kill(); r.Kill(file("a")); r.begin() }, true},
		{"with the host", 3 * time.Second, func(r *rig) { r.reboot(); r.begin() }, true},
		{"after another agent has begun", 3 * time.Second, func(r *rig) { r.kill(); r.begin() }, true},
		{"after a start", 3 * time.Second, func(r *rig) {
			r.submit(process.Start, "a", r.spec("a"))
			r.pass(time.Second)
		}, false},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			s := r.spec("a")
			s.Stop = ""
			r.do(process.Start, "a", s)
			r.OnTERM(r.instance("a"), func() {})
			item := r.submit(process.Stop, "a", s)
			r.pass(5 * time.Second)
			if o, _ := r.sink.outcome(item); o.Fault != process.CheckFailed || !o.Hosted {
				t.Fatalf("%s: %+v", c.name, o)
			}
			r.pass(c.after)
			c.during(r)
			r.Kill(file("a"))
			r.pass(20 * time.Second)
			if c.down {
				if rest := r.state("a", "stopped", false); rest.Cause.ID != process.CauseStopped {
					t.Errorf("%s: cause %+v", c.name, rest.Cause)
				}
				return
			}
			r.state("a", "running", true)
		})
	}
}

// TestFailedStopIsNotUndone: what a stop that failed has ended all the same stays down.
func TestFailedStopIsNotUndone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		r.Script("stop a", operationtest.Script{Code: 1, Begin: func(string) { r.Kill(file("a")) }})
		at := r.starts("a", crashing(r, "a", time.Hour))
		item := r.submit(process.Stop, "a", s)
		r.pass(0)
		r.expect(item, process.Failed, "Script exit code non-zero. Error msessage: [] (stop_cmd: exit status 1)")
		r.pass(20 * time.Second)
		if len(*at) != 0 {
			t.Errorf("launched at %v", *at)
		}
		r.state("a", "stopped", false)
	})
}

// TestFullDisk: while nothing can be written nothing is launched, because a successor might launch it again; with room
// it is, and none of its budget is spent.
func TestFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		at := r.starts("a", crashing(r, "a", time.Second))
		r.disk.fill(errors.New("no space left on device"))
		r.Kill(file("a"))
		r.pass(time.Hour)
		if len(*at) > 0 {
			t.Errorf("launched at %v", *at)
		}
		r.disk.fill(nil)
		r.pass(time.Hour)
		if len(*at) != 4 {
			t.Errorf("launched at %v, want a full budget of 4", *at)
		}
		r.state("a", "given-up", true)
	})
}

func TestSuccessfulStopIsNeverUndone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		// It dies by itself while the stop command runs.
		time.AfterFunc(500*time.Millisecond, func() { r.Kill(file("a")) })
		r.do(process.Stop, "a", s)
		r.pass(time.Hour)
		r.ran("start a", "stop a")
		r.state("a", "stopped", false)
		r.kill()
		r.begin()
		r.pass(time.Hour)
		r.ran("start a", "stop a")
		if s := r.state("a", "stopped", false); s.Want != process.WantStopped {
			t.Errorf("it is wanted %q", s.Want)
		}
	})
}

// TestBeginOfAShortRun: what is gone before drover can look at it began with its own start, not with an earlier one.
func TestBeginOfAShortRun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.pass(time.Hour)
		r.InstanceError = func(instance.Identity) error { return liveness.ErrGone }
		r.Kill(file("a"))
		r.pass(2 * time.Second)
		r.Kill(file("a"))
		r.pass(0)
		if e := r.lastEvent(process.EventExited); e.RunTime > 3000 {
			t.Errorf("it ran for %d ms", e.RunTime)
		}
	})
}
