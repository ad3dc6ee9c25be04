package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
)

func oneOf(again bool) rollout.Plan {
	return rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, SkipAway: true}, OneOf: true, AgainWhenLost: again}
}

// TestOneOf: which host follows which.
func TestOneOf(t *testing.T) {
	var (
		ok        = rollout.Fact{Health: rollout.Well}
		untouched = rollout.Fact{Fault: process.AgentUnavailable, Untouched: true}
		lost      = rollout.Fact{Fault: process.AgentUnavailable}
		failed    = rollout.Fact{Fault: process.Failed, Text: "no"}
		cancelled = rollout.Fact{Fault: process.Cancelled}
	)
	for _, c := range []struct {
		name  string
		again bool
		facts []rollout.Fact
		want  string
	}{
		{"the first", false, []rollout.Fact{ok, ok, ok}, "[ok skipped skipped]"},
		{"the first is away", false, []rollout.Fact{untouched, ok, ok}, "[skipped ok skipped]"},
		{"all are away", false, []rollout.Fact{untouched, untouched, untouched}, "[skipped skipped skipped]"},
		{"the first is lost", false, []rollout.Fact{lost, ok, ok}, "[failed skipped skipped]"},
		{"the first is lost, again", true, []rollout.Fact{lost, ok, ok}, "[failed ok skipped]"},
		{"the first has failed", true, []rollout.Fact{failed, ok, ok}, "[failed skipped skipped]"},
		{"cancelled", true, []rollout.Fact{cancelled, ok, ok}, "[skipped skipped skipped]"},
	} {
		r, now := rollout.New(oneOf(c.again), time.Time{}, hosts(len(c.facts))), epoch
		run(&r, &now, func(h *rollout.Host) rollout.Fact {
			var n int
			_, _ = fmt.Sscanf(h.Name, "host-%d", &n)
			return c.facts[n]
		})
		var states []rollout.HostState
		for i := range r.Hosts {
			states = append(states, r.Hosts[i].State)
		}
		if got := fmt.Sprint(states); got != c.want || r.State != rollout.Done {
			t.Errorf("%s: %s, state %s, want %s", c.name, got, r.State, c.want)
		}
	}
}

// TestOneOfHistories walks an operation on one host through random outcomes, deaths of servers and servers side by side.
// At most one host may have carried it out; with again also those that were lost.
func TestOneOfHistories(t *testing.T) {
	done, several := 0, 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // not a secret
		again := rng.IntN(2) == 0
		w := &world{
			t: t, rng: rng, now: epoch, stored: rollout.New(oneOf(again), time.Time{}, hosts(1+rng.IntN(6))),
			given: map[string]int{}, tasks: map[int]bool{}, outcome: map[string]rollout.Fact{},
			health: map[string]rollout.Health{}, away: map[string]bool{}, down: map[string]bool{},
		}
		for range 200 {
			w.now = w.now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
			copyOfOld := w.stored
			next := rollout.Step(w.stored, w.facts(&w.stored), w.now)
			if rng.IntN(5) > 0 { // else it dies before the write
				w.stored = next
			}
			if rng.IntN(4) > 0 {
				w.submit(&w.stored)
			}
			w.submit(&copyOfOld)
		}
		certain, lost := 0, 0
		for agent, f := range w.outcome {
			switch {
			case f.Fault == process.AgentUnavailable && f.Untouched, f.Fault == process.Cancelled:
			case f.Fault == process.AgentUnavailable:
				lost++
			default:
				certain++
			}
			if w.given[agent] > 1 {
				t.Errorf("seed %d: %s got it %d times", seed, agent, w.given[agent])
			}
		}
		if certain > 1 || !again && certain+lost > 1 {
			t.Fatalf("seed %d: %d hosts have carried it out, and %d may have: %+v", seed, certain, lost, w.stored)
		}
		if lost > 0 && certain > 0 {
			several++
		}
		if w.stored.State == rollout.Done {
			done++
		}
	}
	if done < 1500 || several == 0 {
		t.Errorf("%d of the histories end, %d went on after a lost host", done, several)
	}
}
