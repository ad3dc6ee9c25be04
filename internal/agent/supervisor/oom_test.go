package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
	"drover/internal/spec"
)

// hog starts a process with a hard limit on memory, and returns its run.
func (r *rig) hog() string {
	r.t.Helper()
	s := r.spec("a")
	s.Limits = &spec.Limits{Memory: 64 << 20}
	r.do(process.Start, "a", s)
	return r.disk.runtime(id("a")).Run
}

// killed ends a process as kill -9 does, whoever sends it.
func (r *rig) killed(name string) {
	r.End(r.instance(name), liveness.Exit{Known: true, Signal: 9, At: time.Now()})
	r.pass(10 * time.Millisecond)
}

// lastEvent returns the last event of that kind.
func (r *rig) lastEvent(kind process.EventKind) process.Event {
	r.t.Helper()
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, e := range slices.Backward(r.sink.events) {
		if e.Kind == kind {
			return e
		}
	}
	r.t.Fatalf("there is no event %s", kind)
	return process.Event{}
}

// TestStartOutOfMemory: a process that the kernel ends during the check of its start ran out of memory, and the limit is
// named.
func TestStartOutOfMemory(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Limits = &spec.Limits{Memory: 64 << 20}
		r.Script(line("start", "a"), operationtest.Script{End: func(run string) {
			who := r.Spawn("a", file("a"), run)
			time.AfterFunc(300*time.Millisecond, func() {
				r.parts.starve(run)
				r.End(who, liveness.Exit{Known: true, Signal: 9, At: time.Now()})
			})
		}})
		item := r.submit(process.Start, "a", s)
		r.pass(10 * time.Second)
		o, _ := r.sink.outcome(item)
		if o.Cause != process.CauseOOM || !strings.Contains(o.Text, "by the kernel, out of memory; the memory limit of its "+
			"spec is 64MiB") {
			t.Errorf("outcome %+v", o)
		}
		if e := r.lastEvent(process.EventFailed); e.Cause.ID != process.CauseOOM {
			t.Errorf("event %+v", e)
		}
	})
}

// TestWorkerOutOfMemory: the end of a worker for want of memory is told within seconds and stays a cause for an hour; a
// later SIGKILL of the main process has nothing to do with it. A new agent counts from where the old one stopped.
func TestWorkerOutOfMemory(t *testing.T) {
	for name, afterwards := range map[string]func(r *rig){
		"the same agent": func(*rig) {},
		"another agent":  func(r *rig) { r.kill(); r.begin() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				run := r.hog()
				r.pass(time.Minute)
				caused(t, r.state("a", "running", true), "")
				r.parts.starve(run)
				r.parts.starve(run)
				starved := r.parts
				r.pass(7 * time.Second)
				c := caused(t, r.state("a", "running", true), process.CauseWorkerOOM)
				if !strings.Contains(c.Text, "2 processes of its run") || c.Since == 0 {
					t.Errorf("the cause is %+v", c)
				}
				e := r.lastEvent(process.EventOOMKilled)
				if e.PID != r.instance("a").PID || e.Actor.Kind != process.ActorKernel ||
					e.Cause.ID != process.CauseWorkerOOM {
					t.Errorf("the event is %+v", e)
				}
				afterwards(r)
				r.parts.mu.Lock()
				r.parts.starved = starved.starved
				r.parts.mu.Unlock()
				r.pass(50 * time.Minute)
				caused(t, r.state("a", "running", true), process.CauseWorkerOOM)
				r.pass(10 * time.Minute)
				caused(t, r.state("a", "running", true), "")
				r.killed("a")
				if e := r.lastEvent(process.EventExited); e.Cause.ID != process.CauseSignal ||
					e.Actor.Kind != process.ActorOutside || e.Exit.OOM {
					t.Errorf("the event of the end is %+v", e)
				}
			})
		})
	}
}

// TestEndAfterAWorker: that the kernel has ended a worker is evidence for the end of the main process, also where
// nobody has looked in between; and gone with the next start.
func TestEndAfterAWorker(t *testing.T) {
	for name, before := range map[string]time.Duration{"at once": 0, "later": time.Minute} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				run := r.hog()
				r.pass(time.Minute)
				r.parts.starve(run)
				r.pass(before)
				r.Exit(r.instance("a"), 3)
				r.pass(10 * time.Millisecond)
				e := r.lastEvent(process.EventExited)
				if e.Cause.ID != process.CauseExitStatus || len(e.Cause.Evidence) == 0 ||
					!strings.Contains(e.Cause.Evidence[0], "out of memory") {
					t.Errorf("the cause of the end is %+v", e.Cause)
				}
				r.lastEvent(process.EventOOMKilled)
				r.pass(50 * time.Second)
				caused(t, r.state("a", "running", true), process.CauseRelaunched)
				r.pass(15 * time.Second)
				caused(t, r.state("a", "running", true), "")
			})
		})
	}
}

// TestOutOfMemory: where the main process is what the kernel ends, that is its cause, and no worker's.
func TestOutOfMemory(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		run := r.hog()
		// The count is seen a moment before the end: it is looked at every five seconds.
		r.pass(time.Until(time.Now().Truncate(5*time.Second).Add(time.Minute)) - 10*time.Millisecond)
		r.parts.starve(run)
		r.pass(20 * time.Millisecond)
		r.killed("a")
		r.pass(time.Minute)
		if e := r.lastEvent(process.EventExited); e.Cause.ID != process.CauseOOM ||
			e.Actor.Kind != process.ActorKernel {
			t.Errorf("the event of the end is %+v", e)
		}
		if told := strings.Join(r.sink.history(id("a")), "; "); strings.Contains(told, "oom-killed") {
			t.Errorf("it is told: %s", told)
		}
	})
}

// TestRestWithoutOOM: drover looks at the runs only after the kernel has killed something of the host.
func TestRestWithoutOOM(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		run := r.hog()
		r.pass(2 * time.Minute)
		looks := func() int {
			r.parts.mu.Lock()
			defer r.parts.mu.Unlock()
			return r.parts.looks
		}
		before := looks()
		r.pass(time.Hour)
		if n := looks() - before; n != 0 {
			t.Errorf("%d looks at rest", n)
		}
		r.parts.starve("another")
		r.pass(time.Minute)
		if n := looks() - before; n != 4 { // two as one with a limit, two as one of all
			t.Errorf("%d looks after the end of another process, want 4", n)
		}
		r.parts.starve(run)
		r.pass(7 * time.Second)
		caused(t, r.state("a", "running", true), process.CauseWorkerOOM)
	})
}

// TestAllCauses: each thing that is wrong is shown, with the time since when it is so.
func TestAllCauses(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Health, s.Limits, s.ExpectedInstances = &v1.Health{Exec: "health a"}, &v1.Limits{Memory: 64 << 20}, new(2)
		r.do(process.Start, "a", s)
		who, run := r.instance("a"), r.disk.runtime(id("a")).Run
		few := r.state("a", "running", true).Cause.Since
		if few == 0 {
			t.Error("too few instances, and nobody knows since when")
		}
		r.parts.starve(run)
		r.pass(10 * time.Second)
		since := time.Now().UnixMilli()
		for n := range 3 {
			rec, _ := r.disk.record(id("a"))
			r.Answered(id("a"), who, rec.Revision, true, process.Answer{
				Text: "no", At: time.Now().UnixMilli(),
				Failures: n + 1, Bad: true, Since: since,
			})
			r.pass(time.Minute)
		}
		got := r.state("a", "unhealthy", true)
		if c := caused(t, got, process.CauseUnhealthy); c.Since != since {
			t.Errorf("unhealthy since %d, want %d", c.Since, since)
		}
		var further []process.CauseID
		for _, c := range got.Further {
			further = append(further, c.ID)
			if c.Text == "" || c.Since == 0 || c.ID == process.CauseTooFew && c.Since != few {
				t.Errorf("further cause %+v", c)
			}
		}
		if !slices.Equal(further, []process.CauseID{process.CauseWorkerOOM, process.CauseTooFew}) {
			t.Errorf("further causes %v", further)
		}
	})
}

// TestFlappingSince: how long it has been flapping counts from the relaunch that was one too many, over those that
// follow.
func TestFlappingSince(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		var began int64
		for n := range 5 {
			r.pass(2 * time.Minute)
			r.killed("a")
			if n == 3 {
				began = time.Now().UnixMilli()
			}
		}
		r.pass(30 * time.Second)
		s := r.state("a", "flapping", true)
		caused(t, s, process.CauseSignal)
		if len(s.Further) != 1 || s.Further[0].ID != process.CauseFlapping {
			t.Fatalf("the further causes are %+v", s.Further)
		}
		c := s.Further[0]
		if late := c.Since - began; late < 0 || late > 30_000 {
			t.Errorf("it has been flapping since %v, want about %v", time.UnixMilli(c.Since), time.UnixMilli(began))
		}
	})
}
