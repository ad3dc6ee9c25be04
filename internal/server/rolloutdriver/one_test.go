package rolloutdriver_test

import (
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// TestOneOf: the next host follows only after an operation that no host has taken. The tasks of such a rollout ask.
func TestOneOf(t *testing.T) {
	sent := task.Next(task.Item{State: task.Sent}, task.Unreachable{}, time.Time{}).Outcome
	taken := task.Next(task.Item{State: task.Accepted, Deadline: time.Unix(1, 0)}, task.Overdue{Away: true}, time.Unix(2, 0)).Outcome
	pending := task.Next(task.Item{}, task.Unreachable{}, time.Time{}).Outcome
	for _, c := range []struct {
		name    string
		oneOf   bool
		outcome *process.Outcome
		next    rollout.HostState
		never   bool
	}{
		{"never sent", true, pending, rollout.Begun, true},
		{"sent", true, sent, rollout.Begun, true},
		{"taken", true, taken, rollout.Skipped, false},
		{"never sent, without one-of", false, pending, rollout.Begun, false},
		{"sent, without one-of", false, sent, rollout.Waiting, false},
	} {
		r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, SkipAway: true}, "a", "b")
		if c.oneOf {
			r = oneOfRig(t)
		}
		r.step()
		items, err := r.LeaseItems(t.Context(), r.now.Add(time.Hour), r.now.Add(2*time.Hour), 10)
		r.must(err)
		if len(items) != 1 || items[0].Agent != "a" || items[0].Asks != c.oneOf {
			t.Fatalf("%s: the operations are %+v", c.name, items)
		}
		_, err = r.Finish(t.Context(), []store.ReportedOutcome{{Agent: "a", Item: items[0].ID, Outcome: *c.outcome}})
		r.must(err)
		r.step()
		if ro := r.step(); ro.Hosts[1].State != c.next {
			t.Errorf("%s: the next host is %s, want %s: %+v", c.name, ro.Hosts[1].State, c.next, ro.Hosts)
		} else if text := ro.Hosts[0].Text; strings.HasSuffix(text, "never begins it") != c.never {
			t.Errorf("%s: the text is %q", c.name, text)
		}
	}
}

// TestTouchedHost: a host that has carried out one of two operations is not skipped, whichever of them it never got.
func TestTouchedHost(t *testing.T) {
	pending := *task.Next(task.Item{}, task.Unreachable{}, time.Time{}).Outcome
	failed, other := process.Outcome{Fault: process.Failed, Text: "why"}, process.ID{Namespace: "shop", Name: "other"}
	for _, c := range []struct {
		name string
		ends map[process.ID]process.Outcome
		want rollout.HostState
	}{
		{"neither", map[process.ID]process.Outcome{nginx: pending, other: pending}, rollout.Skipped},
		{"the first", map[process.ID]process.Outcome{nginx: {}, other: pending}, rollout.Failed},
		{"the second", map[process.ID]process.Outcome{nginx: pending, other: {}}, rollout.Failed},
		{"the second, without success", map[process.ID]process.Outcome{nginx: pending, other: failed}, rollout.Failed},
	} {
		steps := []store.RolloutStep{{Op: process.Restart, Process: nginx}, {Op: process.Restart, Process: other}}
		r := rigOf(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, MaxFailures: v1.HostCount{Number: 1}, SkipAway: true},
			process.Restart, steps, "a")
		r.step()
		for range c.ends {
			items, err := r.LeaseItems(t.Context(), r.now.Add(time.Hour), r.now.Add(2*time.Hour), 10)
			r.must(err)
			for _, it := range items {
				_, err = r.Finish(t.Context(), []store.ReportedOutcome{{Agent: "a", Item: it.ID, Outcome: c.ends[it.Process]}})
				r.must(err)
			}
		}
		if ro := r.step(); ro.Hosts[0].State != c.want {
			t.Errorf("%s: the host is %+v, want %s", c.name, ro.Hosts[0], c.want)
		}
	}
}

// oneOfRig is a rig with a rollout on one of two hosts.
func oneOfRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}})
	_, err := r.ChangeRollout(t.Context(), "ro", "", store.RolloutChange{}, (*rollout.Rollout).Abort)
	r.must(err)
	r.must(r.CreateRollouts(t.Context(), []*store.Rollout{{
		ID: "one", App: "app", User: "anna", Created: r.now, Op: process.Restart,
		Steps: []store.RolloutStep{{Op: process.Restart, Process: nginx}}, Total: 2,
		Rollout: rollout.New(rollout.Plan{
			RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, SkipAway: true}, Judged: true, OneOf: true,
		}, time.Time{}, []rollout.Host{
			{Agent: "a", Name: "host-a", Steps: []int{0}}, {Agent: "b", Name: "host-b", Steps: []int{0}},
		}),
	}}, store.AuditRow{}))
	r.id = "one"
	return r
}
