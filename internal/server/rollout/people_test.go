package rollout_test

import (
	"slices"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
)

// TestPeople: what people do needs the right state, and a retry takes the failed hosts only.
func TestPeople(t *testing.T) {
	r, now := rollout.New(rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 2}}}, time.Time{}, hosts(6)), epoch
	run(&r, &now, func(h *rollout.Host) rollout.Fact {
		if h.Name == "host-0" {
			return rollout.Fact{Fault: process.Failed}
		}
		return rollout.Fact{Fault: process.AgentUnavailable}
	})
	if err := r.Pause("again"); err == nil {
		t.Error("a paused rollout is paused")
	}
	if n, err := r.Retry(true); n != 1 || err != nil {
		t.Fatalf("retried are %d: %v", n, err)
	}
	if r.Hosts[1].Batch != 3 || r.Hosts[1].State != rollout.Waiting || r.Hosts[1].Cause != "" {
		t.Errorf("the retried host is %+v", r.Hosts[1])
	}
	run(&r, &now, well)
	if r.State != rollout.Done || r.Counts()[rollout.Succeeded] != 5 || r.Counts()[rollout.Failed] != 1 {
		t.Errorf("after the retry it is %s with %v", r.State, r.Counts())
	}
	if _, err := r.Retry(true); err == nil {
		t.Error("hosts that were not away are retried")
	}
	if n, err := r.Retry(false); n != 1 || err != nil {
		t.Errorf("retried are %d: %v", n, err)
	}
	run(&r, &now, well)
	for name, act := range map[string]func() error{"abort": r.Abort, "resume": r.Resume} {
		if act() == nil {
			t.Errorf("%s of a done rollout", name)
		}
	}
}

// TestNothingIsLeft: a rollout whose hosts all have their outcome is done, also if too many have failed or a person has
// paused it. While a host of its last batch bakes, it is paused.
func TestNothingIsLeft(t *testing.T) {
	failed := func(*rollout.Host) rollout.Fact { return rollout.Fact{Fault: process.Failed} }
	plan := v1.RolloutPlan{Batch: v1.HostCount{Number: 2}, Canary: 2}
	r, now := rollout.New(judged(plan), time.Time{}, hosts(2)), epoch
	run(&r, &now, failed)
	if r.State != rollout.Done || r.Reason != "" || r.Counts()[rollout.Failed] != 2 {
		t.Errorf("all have failed: %s %q with %v", r.State, r.Reason, r.Counts())
	}
	if n, err := r.Retry(false); n != 2 || err != nil {
		t.Errorf("retried are %d: %v", n, err)
	}
	if run(&r, &now, well); r.State != rollout.Done || r.Counts()[rollout.Succeeded] != 2 {
		t.Errorf("after the retry: %s %q with %v", r.State, r.Reason, r.Counts())
	}

	plan.Bake = minute
	r = rollout.Step(rollout.New(judged(plan), time.Time{}, hosts(2)), nil, now)
	facts := all(&r, rollout.Fact{Done: true, Health: rollout.Well})
	facts["agent-1"] = rollout.Fact{Done: true, Fault: process.Failed}
	r = rollout.Step(r, facts, now)
	if r.State != rollout.Paused || r.Counts()[rollout.Baking] != 1 {
		t.Errorf("one has failed, the other bakes: %s with %v", r.State, r.Counts())
	}
	if r = rollout.Step(r, facts, now.Add(time.Minute)); r.State != rollout.Done || r.Reason != "" {
		t.Errorf("after the bake: %s %q with %v", r.State, r.Reason, r.Counts())
	}

	r = rollout.Step(rollout.New(judged(plan), time.Time{}, hosts(2)), nil, now)
	if err := r.Pause("paused by anna"); err != nil {
		t.Fatal(err)
	}
	r = rollout.Step(r, all(&r, rollout.Fact{Done: true, Fault: process.Failed}), now)
	if r.State != rollout.Done || r.Reason != "" {
		t.Errorf("a person paused the last batch: %s %q", r.State, r.Reason)
	}
}

// TestReasonOfAPause: the reason of a rollout that has paused itself counts the hosts that fail after that, too, and tells
// the limit that holds. A person's reason stays.
func TestReasonOfAPause(t *testing.T) {
	plan := v1.RolloutPlan{Batch: v1.HostCount{Number: 3}}
	begun := rollout.Step(rollout.New(judged(plan), time.Time{}, hosts(6)), nil, epoch)
	failed := rollout.Fact{Done: true, Fault: process.Failed}
	first := map[string]rollout.Fact{"agent-0": failed}
	r := rollout.Step(begun, first, epoch)
	if want := "1 of 6 hosts failed, and at most 0 may fail"; r.State != rollout.Paused || r.Reason != want {
		t.Fatalf("after the first: %s %q, want %q", r.State, r.Reason, want)
	}
	r = rollout.Step(r, all(&r, failed), epoch)
	if want := "3 of 6 hosts failed, and at most 0 may fail"; r.State != rollout.Paused || r.Reason != want {
		t.Errorf("after the others: %s %q, want %q", r.State, r.Reason, want)
	}
	plan.MaxFailures = v1.HostCount{Number: 2}
	if err := r.Pace(plan); err != nil || r.Reason != "3 of 6 hosts failed, and at most 2 may fail" {
		t.Errorf("with another limit: %q, %v", r.Reason, err)
	}
	byAnna := begun
	if err := byAnna.Pause("paused by anna"); err != nil {
		t.Fatal(err)
	}
	if r = rollout.Step(byAnna, all(&byAnna, failed), epoch); r.Reason != "paused by anna" {
		t.Errorf("a person's reason is now %q", r.Reason)
	}
}

// TestPace: the hosts that wait get batches of another size after the canaries, and a bake under way is as long as the plan
// says now.
func TestPace(t *testing.T) {
	one, two := v1.HostCount{Number: 1}, v1.HostCount{Number: 2}
	plan := v1.RolloutPlan{Batch: two, Canary: 2, Bake: v1.Duration(time.Hour)}
	r := rollout.New(rollout.Plan{RolloutPlan: plan, Judged: true}, time.Time{}, hosts(6))
	batches := func() (list []int) {
		for i := range r.Hosts {
			list = append(list, r.Hosts[i].Batch)
		}
		return list
	}
	plan.Batch = one
	if err := r.Pace(plan); err != nil || !slices.Equal(batches(), []int{0, 0, 1, 2, 3, 4}) {
		t.Fatalf("before the canaries: %v, %v", batches(), err)
	}
	now := epoch
	r = rollout.Step(r, nil, now)
	plan.Batch, plan.Bake, plan.Canary = v1.HostCount{Number: 3}, v1.Duration(10*time.Second), 0
	if err := r.Pace(plan); err != nil || !slices.Equal(batches(), []int{0, 0, 1, 1, 1, 2}) || r.Plan.Canary != 2 {
		t.Fatalf("beside the canaries: %v, %d canaries, %v", batches(), r.Plan.Canary, err)
	}
	facts := map[string]rollout.Fact{}
	for _, h := range r.Hosts[:2] {
		facts[h.Agent] = rollout.Fact{Done: true, Health: rollout.Well}
	}
	for range 3 { // the outcome, the end of the bake, the next batch
		r = rollout.Step(r, facts, now)
		now = now.Add(11 * time.Second)
	}
	if r.Batch != 1 || r.Counts()[rollout.Begun] != 3 {
		t.Errorf("after ten seconds: batch %d, %v", r.Batch, r.Counts())
	}
	if err := r.Abort(); err != nil || r.Pace(plan) == nil {
		t.Errorf("a rollout that has ended has another pace: %v", err)
	}
}

// TestRetryOfSkippedHosts: a retry of a rollout that has skipped its hosts says how to reach them.
func TestRetryOfSkippedHosts(t *testing.T) {
	plan := rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 2}, SkipAway: true}}
	r, now := rollout.New(plan, time.Time{}, hosts(2)), epoch
	run(&r, &now, func(*rollout.Host) rollout.Fact {
		return rollout.Fact{Fault: process.AgentUnavailable, Untouched: true}
	})
	want := "the rollout is done: expected a rollout with failed hosts, or --away for hosts that were away"
	if _, err := r.Retry(false); err == nil || err.Error() != want {
		t.Errorf("without --away: %v, want %s", err, want)
	}
	if n, err := r.Retry(true); n != 2 || err != nil {
		t.Errorf("with --away %d are retried: %v", n, err)
	}
}
