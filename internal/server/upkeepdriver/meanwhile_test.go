package upkeepdriver_test

import (
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// TestAbortedRollout: a host that was away while a batch of its rollout began does not get the release of a rollout
// that somebody has aborted.
func TestAbortedRollout(t *testing.T) {
	for _, state := range []rollout.State{rollout.Done, rollout.Aborted} {
		r := newRig(t)
		r.label("a", "web")
		r.apply(spec("one", ""))
		ro := r.rollOut(store.RolloutStep{Op: process.Restart, Process: web, Spec: spec("two", "")})
		r.away["key-a"] = true
		_, err := r.CreateTask(t.Context(), &store.Task{
			ID: ro.BatchTask(0), App: "shop", Through: v1.ThroughApply, Created: r.now, Ordered: true,
			Requests: []store.Request{{Op: process.Restart, Process: web, Spec: spec("two", ""), Targets: []store.Target{
				{ItemKey: "a", Spelling: "a", Agent: "key-a"},
			}}},
		}, store.AuditRow{}, r.now, 0)
		r.must(err)
		r.agents()
		r.carried = nil
		r.returns(ro, state, "restart a 2")
	}
}

// rollOut stores a rollout of an apply with one step on host a.
func (r *rig) rollOut(step store.RolloutStep) *store.Rollout {
	r.t.Helper()
	ro := &store.Rollout{
		ID: store.RolloutMark + "x", App: "shop", Created: r.now, Op: store.OpApply, Total: 1,
		Steps: []store.RolloutStep{step},
		Rollout: rollout.New(rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}}, time.Time{},
			[]rollout.Host{{Agent: "key-a", Name: "a", Steps: []int{0}}}),
	}
	r.must(r.CreateRollouts(r.t.Context(), []*store.Rollout{ro}, store.AuditRow{}))
	return ro
}

// returns ends a rollout in a state, and lets host a return. It then does what the rollout has left, unless somebody
// has aborted the rollout.
func (r *rig) returns(ro *store.Rollout, state rollout.State, left string) {
	r.t.Helper()
	_, err := r.ChangeRollout(r.t.Context(), ro.ID, "", store.RolloutChange{}, func(ro *rollout.Rollout) error {
		ro.State = state
		return nil
	})
	r.must(err)
	r.away["key-a"] = false
	if state == rollout.Aborted {
		r.rounds("after the abort")
	} else {
		r.rounds("after the rollout", left)
	}
}

// TestApplyMeanwhile: a host that has ceased to match gives the process up, although somebody applies another spec
// before the server has stopped the process, or between the stop and the removal.
func TestApplyMeanwhile(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.label(name, "web")
	}
	r.apply(spec("one", process.LeaveStop))
	r.carried = nil
	r.rounds("after the apply")

	r.label("a", "db")
	r.apply(spec("two", process.LeaveStop))
	r.rounds("an apply before the stop", "start b 2", "start c 2", "stop a 0", "unregister a 0")

	r.label("b", "db")
	r.now = r.now.Add(10 * time.Second)
	_, err := r.care.Round(t.Context())
	r.must(err)
	r.agents()
	r.apply(spec("three", process.LeaveStop))
	r.rounds("an apply after the stop", "stop b 0", "start c 5", "unregister b 0")

	r.away["key-c"] = true
	r.label("c", "db")
	r.rounds("a host is away")
	r.apply(spec("four", process.LeaveStop))
	r.away["key-c"] = false
	r.rounds("it returns after an apply", "stop c 0", "unregister c 0")
}

// TestMendInTurn: of the hosts on which a process has drifted, one is mended at a time. The next one waits until the
// process runs again there. An executable that is gone is not mended.
func TestMendInTurn(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.label(name, "web")
	}
	mends := spec("one", "")
	mends.Drift = process.DriftMend
	r.apply(mends)
	r.carried = nil
	r.live = map[string]string{"a": "executable", "b": "executable", "c": "executable is gone"}
	r.now = r.now.Add(6 * time.Minute)
	r.deaf = true
	r.rounds("the first host is under way")
	open, err := r.BusyOn(t.Context(), []string{"key-a", "key-b", "key-c"})
	r.must(err)
	if len(open) != 1 {
		t.Errorf("mended at once: %v", open)
	}
	r.deaf = false
	r.live = map[string]string{"b": "executable", "c": "executable is gone"}
	r.agents()
	becomes := func(state string, pid int) {
		t.Helper()
		var a store.Observed
		r.must(r.GetObserved(t.Context(), web, []string{"key-a"}, func(o store.Observed) error {
			a = o
			return nil
		}))
		a.Status.State, a.Status.Instance.PID = state, pid
		r.must(r.PutObserved(t.Context(), store.ReportMark{Agent: "key-a"}, []store.Observed{a}, nil))
	}
	becomes(process.StateBackoff, -1)
	r.now = r.now.Add(6 * time.Minute)
	r.rounds("it does not run where it was mended", "restart a 1")
	becomes(process.StateRunning, 8)
	r.rounds("the others follow", "restart b 1")
	r.live = map[string]string{"c": "executable is gone"}
	r.now = r.now.Add(6 * time.Minute)
	r.rounds("what is gone stays")
}
