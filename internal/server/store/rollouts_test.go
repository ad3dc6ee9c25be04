package store_test

import (
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// TestEventsOfRollouts: a change that somebody waits for is an event, any other is none.
func TestEventsOfRollouts(t *testing.T) {
	hosts := []rollout.Host{
		{Agent: "a", State: rollout.Succeeded}, {Agent: "b", State: rollout.Failed}, {Agent: "c", State: rollout.Skipped},
	}
	for _, c := range []struct {
		from, to rollout.State
		plan     rollout.Plan
		schedule string
		want     string
	}{
		{from: rollout.Running, to: rollout.Paused, want: "rollout-paused because; rollout ro-1"},
		{from: rollout.Scheduled, to: rollout.Paused, want: "rollout-paused because; rollout ro-1"},
		{from: rollout.Running, to: rollout.Held, want: "rollout-held because; rollout ro-1"},
		{from: rollout.Held, to: rollout.Running, want: "rollout-resumed goes on; rollout ro-1"},
		{from: rollout.Done, to: rollout.Running, want: "rollout-resumed goes on; rollout ro-1"},
		{from: rollout.Running, to: rollout.Done, want: "rollout-failed done on 1 of 3 hosts; 1 failed; 1 skipped; rollout ro-1"},
		{
			from: rollout.Running, to: rollout.Done, plan: rollout.Plan{RolloutPlan: v1.RolloutPlan{MaxFailures: v1.HostCount{Number: 1}}},
			want: "rollout-done done on 1 of 3 hosts; 1 failed; 1 skipped; rollout ro-1",
		},
		{from: rollout.Paused, to: rollout.Aborted, want: "rollout-aborted because; rollout ro-1"},
		{from: rollout.Running, to: rollout.Done, plan: rollout.Plan{OneOf: true}},
		{from: rollout.Running, to: rollout.Done, schedule: "nightly"},
		{from: rollout.Running, to: rollout.Running},
		{from: rollout.Scheduled, to: rollout.Running},
	} {
		r := store.Rollout{
			ID: "ro-1", Schedule: c.schedule,
			Rollout: rollout.Rollout{State: c.to, Reason: "because", Plan: c.plan, Hosts: hosts},
			Steps:   []store.RolloutStep{{Process: process.ID{Namespace: "shop", Name: "web"}}},
		}
		e, ok, err := r.Event(c.from, store.RolloutChange{At: time.UnixMilli(7)}, 3)
		got := ""
		if ok {
			got = string(e.Kind) + " " + e.Cause.Text
		}
		if err != nil || got != c.want || ok && (e.Stream != "rollout-ro-1" || e.Seq != 3 ||
			e.At != 7 || e.Process.Name != "web") {
			t.Errorf("from %s to %s: %+v, %v, want %q", c.from, c.to, e, err, c.want)
		}
	}
}
