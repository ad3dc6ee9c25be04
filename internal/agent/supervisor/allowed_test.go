package supervisor_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// owner is the policy of a host whose owner forbids operations from time to time.
type owner struct {
	mu     sync.Mutex
	forbid map[process.Op]bool
}

func (o *owner) forbids(ops ...process.Op) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forbid = map[process.Op]bool{}
	for _, op := range ops {
		o.forbid[op] = true
	}
}

func (o *owner) Allow(_ process.ID, op process.Op, _ *process.Spec) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.forbid[op] {
		return process.Errorf(process.Failed, "no %s here", op).Because(process.CausePolicy)
	}
	return nil
}

func (o *owner) MayAsk(process.ID, *process.Spec) error {
	return o.Allow(process.ID{}, process.Query, nil)
}

func (o *owner) MayLook(process.ID, *process.Spec) error { return nil }

// owned runs fn with a rig on the host of an owner.
func owned(t *testing.T, fn func(t *testing.T, r *rig, o *owner)) {
	t.Helper()
	bubble(t, func(t *testing.T, r *rig) {
		o := &owner{}
		r.stop()
		r.policy = o
		r.begin()
		fn(t, r, o)
	})
}

// TestWhoMayNotBeStartedAgainWaits: it costs him no attempt and no other his place, is told once, outlives the agent,
// and ends soon after it is allowed again.
func TestWhoMayNotBeStartedAgainWaits(t *testing.T) {
	owned(t, func(t *testing.T, r *rig, o *owner) {
		s := r.spec("a")
		s.Compat.StartRetries = 1
		r.do(process.Start, "a", s)
		o.forbids(process.Start)
		item := r.submit(process.Start, "b", r.spec("b"))
		r.pass(time.Second)
		r.expect(item, process.Failed, "no start here")
		r.Kill(file("a"))
		r.pass(time.Hour)
		got := r.state("a", "backoff", true)
		if got.Cause.ID != process.CausePolicy ||
			!strings.HasSuffix(got.Message, "drover does not relaunch it: no start here") {
			t.Errorf("it is shown as %+v", got)
		}
		r.kill()
		r.begin()
		r.pass(time.Hour)
		r.ran("start a")
		told := 0
		for _, e := range r.sink.history(id("a")) {
			if strings.Contains(e, string(process.CausePolicy)) {
				told++
			}
		}
		if told != 1 {
			t.Errorf("this life of the agent has told of it %d times: %q", told, r.sink.history(id("a")))
		}
		o.forbids()
		r.pass(17 * time.Second)
		r.state("a", "running", true)
		r.ran("start a", "start a")
	})
}

// TestWhoMayNotBeEndedIsSpared: neither a limit nor bad health ends him, which is told once for each instance.
func TestWhoMayNotBeEndedIsSpared(t *testing.T) {
	owned(t, func(t *testing.T, r *rig, o *owner) {
		r.do(process.Start, "a", r.spec("a"))
		o.forbids(process.Stop)
		for range 3 {
			r.Exceeded(id("a"), r.instance("a"), overMem())
			r.pass(time.Minute)
		}
		got := r.state("a", "running", true)
		if got.Cause.ID != process.CausePolicy ||
			!strings.Contains(got.Message, "uses more than it may and is not ended: no stop here") {
			t.Errorf("it is shown as %+v", got)
		}
		if d := cmp.Diff([]string{"operation-failed running→running refused-by-policy"},
			r.sink.history(id("a"))[1:]); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		r.ran("start a")
		o.forbids()
		r.Exceeded(id("a"), r.instance("a"), overMem())
		r.pass(time.Minute)
		r.ran("start a", "stop a", "start a")
	})
}

// TestTheTimetableObeys: a run that is not allowed is over as failed, and the next one that is takes place.
func TestTheTimetableObeys(t *testing.T) {
	owned(t, func(t *testing.T, r *rig, o *owner) {
		s := r.every("a", 60, 2*time.Second, v1.Schedule{})
		at := r.starts("a", operationtest.Script{Takes: 2 * time.Second, Output: "done"})
		r.do(process.Host, "a", s)
		o.forbids(process.Start)
		r.pass(130 * time.Second)
		if len(*at) != 0 {
			t.Errorf("run at %v", *at)
		}
		got := r.state("a", "scheduled", true)
		if len(got.Runs) != 2 || !strings.Contains(got.Runs[0].Output, "no start here") {
			t.Errorf("its runs are %+v", got.Runs)
		}
		o.forbids()
		r.pass(time.Minute)
		if len(*at) != 1 {
			t.Errorf("run at %v", *at)
		}
	})
}

// TestWhoMayNotBeAskedIsNot: the probes know nothing of him.
func TestWhoMayNotBeAskedIsNot(t *testing.T) {
	owned(t, func(t *testing.T, r *rig, o *owner) {
		s := r.spec("a")
		s.Health = &v1.Health{Exec: "health a"}
		o.forbids(process.Query)
		r.do(process.Start, "a", s)
		if _, asked := r.parts.subject(id("a")); asked {
			t.Error("it is asked")
		}
		o.forbids()
		r.do(process.Restart, "a", s)
		if _, asked := r.parts.subject(id("a")); !asked {
			t.Error("it is not asked")
		}
	})
}

// withhold has the server withhold the relaunches of a for a time.
func (r *rig) withhold(revision int64, length time.Duration) {
	r.Withhold(id("a"), revision, length, "7 of 20 hosts failed")
}

// TestWithheldRelaunch: it waits until the word of the server ends, costs no attempt, and says why.
func TestWithheldRelaunch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Compat.StartRetries, s.Revision = 1, 7
		r.do(process.Start, "a", s)
		r.withhold(7, time.Minute)
		r.Kill(file("a"))
		r.pass(50 * time.Second)
		got := r.state("a", "backoff", true)
		if got.Cause.ID != process.CauseBreakerOpen || !strings.Contains(got.Message, "7 of 20 hosts failed") {
			t.Errorf("it is shown as %+v", got)
		}
		r.ran("start a")
		r.withhold(7, time.Minute) // the next word
		r.pass(55 * time.Second)
		r.state("a", "backoff", true)
		r.pass(30 * time.Second)
		r.state("a", "running", true)
		r.ran("start a", "start a")
	})
}

// broken starts a, which dies while the server withholds its relaunches, and returns how it is shown.
func (r *rig) broken() process.Status {
	r.t.Helper()
	s := r.spec("a")
	s.Revision = 7
	r.do(process.Start, "a", s)
	r.withhold(7, 10*time.Minute)
	r.Kill(file("a"))
	r.pass(time.Minute)
	return r.state("a", "backoff", true)
}

// TestRelaunchAfterABreaker: it has the cause of the death, not the breaker, which withholds no more.
func TestRelaunchAfterABreaker(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		if got := r.broken(); got.Cause.ID != process.CauseBreakerOpen ||
			!strings.HasSuffix(got.Message, "; 7 of 20 hosts failed") {
			t.Errorf("it is shown as %+v", got)
		}
		r.withhold(7, 0)
		r.pass(0)
		if got := r.state("a", "backoff", true); got.Cause.ID != process.CauseSignal ||
			strings.Contains(got.Message, "hosts failed") {
			t.Errorf("at once after the breaker it is shown as %+v", got)
		}
		r.pass(30 * time.Second)
		got := r.state("a", "running", true)
		why := r.lastEvent(process.EventRelaunched).Cause
		for _, text := range []string{got.Message, why.Text} {
			if text == "" || strings.Contains(text, "hosts failed") {
				t.Errorf("after the breaker: %q", text)
			}
		}
		if why.ID != process.CauseSignal {
			t.Errorf("the relaunch has the cause %q", why.ID)
		}
	})
}

// TestWithheldNoLonger: a word without a time ends an earlier one, and another revision is not withheld.
func TestWithheldNoLonger(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Revision = 7
		r.do(process.Start, "a", s)
		r.withhold(8, time.Minute)
		r.Kill(file("a"))
		r.pass(time.Second)
		r.state("a", "running", true)
		r.withhold(7, time.Hour) // at most ten minutes
		r.Kill(file("a"))
		r.pass(9 * time.Minute)
		r.state("a", "backoff", true)
		r.withhold(7, 0)
		r.pass(25 * time.Second)
		r.state("a", "running", true)
		r.withhold(7, time.Hour)
		r.Kill(file("a"))
		r.pass(11 * time.Minute)
		r.state("a", "running", true)
	})
}

// TestAPersonIsNotWithheld: a start, and a retry of what was given up, begin at once.
func TestAPersonIsNotWithheld(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Revision = 7
		r.do(process.Start, "a", s)
		for _, op := range []process.Op{process.Start, process.Restart, process.Retry} {
			r.withhold(7, 5*time.Minute)
			r.Kill(file("a"))
			r.pass(time.Minute)
			r.state("a", "backoff", true)
			r.submit(op, "a", nil)
			r.pass(time.Minute)
			r.state("a", "running", true)
		}
	})
}

// TestAnAgentThatRestartsForgets: the word is not stored, so nothing is held down by a server that is gone.
func TestAnAgentThatRestartsForgets(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.broken()
		r.kill()
		r.begin()
		r.pass(time.Minute)
		r.state("a", "running", true)
	})
}

// TestWithheldHealthRestart: a sick process is not ended while its relaunch would be withheld.
func TestWithheldHealthRestart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Revision, s.Health = 7, &v1.Health{Exec: "ask", Action: "restart"}
		r.do(process.Start, "a", s)
		r.withhold(7, time.Minute)
		who := r.instance("a")
		r.answers("a", who, true, process.Answer{Bad: true, Text: "sick"})
		r.pass(time.Second)
		if now := r.instance("a"); now != who {
			t.Errorf("it was ended: %v, then %v", who, now)
		}
		further := func() []process.Cause {
			s := r.state("a", "unhealthy", true)
			if s.Cause.ID != process.CauseUnhealthy {
				t.Errorf("the cause is %+v", s.Cause)
			}
			return s.Further
		}
		if why := further(); len(why) != 1 || why[0].ID != process.CauseBreakerOpen ||
			!strings.Contains(why[0].Text, "7 of 20 hosts failed") {
			t.Errorf("what else is wrong: %+v", why)
		}
		r.answers("a", who, true, process.Answer{OK: true})
		r.pass(time.Second)
		if s := r.state("a", "running", true); s.Cause.ID != "" || s.Message != "" {
			t.Errorf("a healthy process is shown as %+v", s)
		}
		r.answers("a", who, true, process.Answer{Bad: true, Text: "sick"})
		r.pass(time.Second)
		if why := further(); len(why) != 1 {
			t.Errorf("what else is wrong: %+v", why)
		}
		r.withhold(7, 0)
		r.answers("a", who, true, process.Answer{Bad: true, Text: "sick"})
		r.pass(time.Minute)
		if now := r.instance("a"); now == who {
			t.Error("it was not ended after that")
		}
	})
}

// TestWithheldLateness: a process that is not ready in time is not ended while its relaunch would be withheld.
func TestWithheldLateness(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		runs := r.relaunched(true)
		r.withhold(0, 5*time.Minute)
		r.pass(time.Minute)
		if s := r.state("a", "not-ready", true); s.Cause.ID != process.CauseNotReady {
			t.Errorf("the cause of what is late is %+v", s.Cause)
		}
		if len(*runs) != 2 {
			t.Errorf("it was started %d times, want 2", len(*runs))
		}
	})
}
