package rolloutdriver_test

import (
	"testing"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// TestApplyOverAHostThatEnds: a host that ended before anything proved that it has the apply is skipped as one that is
// away. A host that has taken the apply counts as failed.
func TestApplyOverAHostThatEnds(t *testing.T) {
	const sent = ": it was sent the operation and has not answered; it may have begun, and never begins later"
	for text, want := range map[string]rollout.HostState{
		sent: rollout.Skipped, ": it has taken the operation, and may have begun": rollout.Failed,
	} {
		r, _ := applied(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, SkipAway: true}, "a")
		r.step()
		items, err := r.LeaseItems(t.Context(), r.now, r.now, 100)
		r.must(err)
		for _, it := range items {
			_, err := r.Finish(t.Context(), []store.ReportedOutcome{{Agent: it.Agent, Item: it.ID, Outcome: process.Outcome{
				Fault: process.AgentUnavailable, Text: task.Unavailable + text,
			}}})
			r.must(err)
		}
		r.step()
		if ro := r.step(); len(items) != 2 || ro.Hosts[0].State != want || ro.Hosts[0].Cause != rollout.CauseAway {
			t.Errorf("%d operations ended with %q: the host is %+v", len(items), text, ro.Hosts[0])
		}
	}
}
