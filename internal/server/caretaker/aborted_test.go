package caretaker_test

import (
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// TestAbortedRollout: a host that was away while a batch of its rollout began does not get the release of a rollout that
// somebody has aborted.
func TestAbortedRollout(t *testing.T) {
	for _, state := range []rollout.State{rollout.Done, rollout.Aborted} {
		r := newRig(t)
		r.label("a", "web")
		r.apply(spec("one", ""))
		id := store.RolloutMark + "x"
		ro := &store.Rollout{
			ID: id, App: "shop", Created: r.now, Op: store.OpApply, Total: 1,
			Steps: []store.RolloutStep{{Op: process.Restart, Process: web, Spec: spec("two", "")}},
			Rollout: rollout.New(rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}}, time.Time{},
				[]rollout.Host{{Agent: "key-a", Name: "a", Steps: []int{0}}}),
		}
		r.must(r.CreateRollouts(t.Context(), []*store.Rollout{ro}, store.AuditRow{}))
		r.away["key-a"] = true
		_, err := r.CreateTask(t.Context(), &store.Task{
			ID: ro.BatchTask(0), App: "shop", Through: v1.ThroughApply, Created: r.now, Ordered: true,
			Requests: []store.Request{{Op: process.Restart, Process: web, Spec: spec("two", ""), Targets: []store.Target{
				{Key: "a", Asked: "a", Agent: "key-a"},
			}}},
		}, store.AuditRow{}, r.now, 0)
		r.must(err)
		r.agents()
		_, err = r.ChangeRollout(t.Context(), id, "", func(ro *rollout.Rollout) error {
			ro.State = state
			return nil
		})
		r.must(err)
		r.carried = nil
		r.away["key-a"] = false
		if state == rollout.Aborted {
			r.rounds("after the abort")
		} else {
			r.rounds("after the rollout", "restart a 2")
		}
	}
}
