package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func hosts(n int) (list []rollout.Host) {
	for i := range n {
		list = append(list, rollout.Host{Agent: fmt.Sprint("agent-", i), Name: fmt.Sprint("host-", i)})
	}
	return list
}

// world is a fleet and the server's memory of a rollout. The server forgets everything else when it dies.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	stored rollout.Rollout
	now    time.Time
	// given counts, by agent and batch, how often the host got the operation. outcome is what the host will say.
	given   map[string]int
	tasks   map[int]bool
	outcome map[string]rollout.Fact
	// wellAt is the health of the hosts after the operation.
	health map[string]rollout.Health
	away   map[string]bool
}

// drive is a step of a server. It may die before it stores its decision, or before it submits the task of the batch; a
// second server may do the same from an old copy.
func (w *world) drive() {
	copyOfOld := w.stored
	next := rollout.Step(w.stored, w.facts(&w.stored), w.now)
	if w.rng.IntN(5) == 0 {
		return // it dies before the write
	}
	w.stored = next
	w.check()
	for range 1 + w.rng.IntN(2) { // two servers at once
		if w.rng.IntN(4) > 0 {
			w.submit(&w.stored)
		}
	}
	w.submit(&copyOfOld)
}

// submit makes the task of each begun batch, unless the task exists: the id is that of the batch.
func (w *world) submit(r *rollout.Rollout) {
	made := map[int]bool{}
	for i := range r.Hosts {
		h := &r.Hosts[i]
		if h.State != rollout.Begun || w.tasks[h.Batch] {
			continue
		}
		made[h.Batch] = true
		key := fmt.Sprint(h.Agent, "/", h.Batch)
		w.given[key]++
		if w.given[key] > 1 {
			w.t.Errorf("%s got the operation twice", key)
		}
		faults := []process.Fault{
			process.None, process.None, process.None, process.None, process.Failed, process.AgentUnavailable,
			process.Cancelled,
		}
		f := rollout.Fact{Batch: h.Batch, Done: true, Fault: faults[w.rng.IntN(len(faults))], Text: "text"}
		f.Untouched = w.rng.IntN(2) == 0
		w.outcome[h.Agent] = f
		w.health[h.Agent] = rollout.Health(w.rng.IntN(6))
		if w.health[h.Agent] > rollout.Unwell {
			w.health[h.Agent] = rollout.Well
		}
	}
	for batch := range made {
		w.tasks[batch] = true
	}
}

func (w *world) facts(r *rollout.Rollout) map[string]rollout.Fact {
	facts := map[string]rollout.Fact{}
	for i := range r.Hosts {
		h := &r.Hosts[i]
		f, known := w.outcome[h.Agent]
		if !known || !w.tasks[h.Batch] || w.rng.IntN(3) == 0 {
			continue // not heard of yet
		}
		f.Health, f.Cause, f.Away = w.health[h.Agent], "unhealthy", w.away[h.Agent]
		facts[h.Agent] = f
	}
	return facts
}

// check compares the stored rollout with the promises.
func (w *world) check() {
	w.t.Helper()
	r := &w.stored
	counts := r.Counts()
	batch := max(1, r.Plan.Batch.Of(len(r.Hosts)), r.Plan.Canary)
	affected := counts[rollout.Begun] + counts[rollout.Baking] + counts[rollout.Failed]
	most := batch + r.Plan.MaxFailures.Of(len(r.Hosts)) + r.Forgiven
	if affected > most {
		w.t.Errorf("%d hosts are affected, at most %d may be: %+v", affected, most, r)
	}
	if r.State == rollout.Done && counts[rollout.Waiting]+counts[rollout.Begun]+counts[rollout.Baking] > 0 {
		w.t.Errorf("it is done with %v", counts)
	}
	if r.State == rollout.Paused && r.Reason == "" {
		w.t.Error("it is paused without a reason")
	}
}

// person does what a person may do.
func (w *world) person() {
	next := w.stored
	next.Hosts = append([]rollout.Host(nil), w.stored.Hosts...)
	var err error
	switch w.rng.IntN(5) {
	case 0:
		err = next.Pause("paused by anna")
	case 1, 2:
		err = next.Resume()
	case 3:
		_, err = next.Retry(w.rng.IntN(2) == 0)
	case 4:
		if w.rng.IntN(10) > 0 {
			return
		}
		err = next.Abort()
	}
	if err == nil {
		w.stored = next
		w.check()
	}
}

// TestHistories walks rollouts through random histories of outcomes, deaths of servers, servers side by side and orders
// of people. No host gets the operation of a batch twice, and the number of affected hosts stays within the bound.
func TestHistories(t *testing.T) {
	ended := map[rollout.State]int{}
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not a secret
		plan := rollout.Plan{
			Batch: rollout.Size{Count: 1 + rng.IntN(4)}, Canary: rng.IntN(3), SkipAway: rng.IntN(2) == 0,
			MaxFailures: rollout.Size{Count: rng.IntN(4)}, Judged: rng.IntN(3) > 0,
			Bake: time.Duration(rng.IntN(3)) * time.Second, Pause: time.Duration(rng.IntN(3)) * time.Second,
		}
		if rng.IntN(2) == 0 {
			plan.Batch, plan.MaxFailures = rollout.Size{Percent: 1 + rng.IntN(50)}, rollout.Size{Percent: rng.IntN(40)}
		}
		w := &world{
			t: t, rng: rng, now: epoch, stored: rollout.New(plan, hosts(1+rng.IntN(20))),
			given: map[string]int{}, tasks: map[int]bool{}, outcome: map[string]rollout.Fact{},
			health: map[string]rollout.Health{}, away: map[string]bool{},
		}
		for range 400 {
			w.now = w.now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
			w.drive()
			if rng.IntN(10) == 0 {
				w.person()
			}
			if rng.IntN(20) == 0 {
				w.away[fmt.Sprint("agent-", rng.IntN(20))] = rng.IntN(2) == 0
			}
		}
		if ended[w.stored.State]++; t.Failed() {
			t.Fatalf("seed %d: %+v", seed, w.stored)
		}
	}
	if ended[rollout.Done] < 30 || ended[rollout.Aborted] < 30 {
		t.Errorf("the histories hardly end: %v", ended)
	}
}

// run drives a rollout whose hosts all answer so, until it rests. It returns the size of each batch.
func run(r *rollout.Rollout, now *time.Time, fact func(h *rollout.Host) rollout.Fact) (batches []int) {
	for range 1000 {
		facts := map[string]rollout.Fact{}
		for i := range r.Hosts {
			if h := &r.Hosts[i]; h.State == rollout.Begun || h.State == rollout.Baking {
				f := fact(h)
				f.Batch, f.Done = h.Batch, true
				facts[h.Agent] = f
			}
		}
		before := r.Batch
		*r = rollout.Step(*r, facts, *now)
		if r.Batch != before {
			batches = append(batches, r.Counts()[rollout.Begun])
		}
		*now = now.Add(time.Second)
	}
	return batches
}

func well(*rollout.Host) rollout.Fact { return rollout.Fact{Health: rollout.Well} }

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		plan  rollout.Plan
		hosts int
		want  string
	}{
		{rollout.Plan{Batch: rollout.Size{Percent: 10}}, 25, "[2 2 2 2 2 2 2 2 2 2 2 2 1]"},
		{rollout.Plan{Batch: rollout.Size{Count: 4}, Canary: 2}, 11, "[2 4 4 1]"},
		{rollout.Plan{Batch: rollout.Size{Percent: 1}}, 3, "[1 1 1]"},
		{rollout.Plan{Batch: rollout.Size{Count: 100}}, 3, "[3]"},
		{rollout.Plan{Batch: rollout.Size{Count: 1}, Canary: 5}, 3, "[3]"},
		{rollout.Plan{Batch: rollout.Size{Count: 2}, Bake: time.Minute, Pause: time.Minute, Judged: true}, 4, "[2 2]"},
	} {
		r, now := rollout.New(c.plan, hosts(c.hosts)), epoch
		if got := fmt.Sprint(run(&r, &now, well)); got != c.want || r.State != rollout.Done {
			t.Errorf("%+v over %d hosts: batches %s, state %s, want %s", c.plan, c.hosts, got, r.State, c.want)
		}
	}
}

// TestItStopsItself: each kind of failure counts once a host, and the rollout stops beyond the allowed number.
func TestItStopsItself(t *testing.T) {
	bad := func(f rollout.Fact) func(h *rollout.Host) rollout.Fact {
		return func(h *rollout.Host) rollout.Fact {
			if h.Name == "host-1" || h.Name == "host-2" || h.Name == "host-5" {
				return f
			}
			return rollout.Fact{Health: rollout.Well}
		}
	}
	failed := rollout.Fact{Fault: process.CheckFailed, Text: "gone"}
	away := rollout.Fact{Fault: process.AgentUnavailable, Untouched: true}
	sick := rollout.Fact{Health: rollout.Unwell, Cause: "flapping"}
	one, ten := rollout.Size{Count: 1}, 10
	for _, c := range []struct {
		name   string
		plan   rollout.Plan
		fact   rollout.Fact
		state  rollout.State
		reason string
		begun  int
	}{
		{"none allowed", rollout.Plan{Batch: one}, failed, "paused", "1 of 10 hosts failed, and at most 0 may fail", 2},
		{
			"two allowed",
			rollout.Plan{Batch: one, MaxFailures: rollout.Size{Count: 2}},
			failed, "paused",
			"3 of 10 hosts failed, and at most 2 may fail", 6,
		},
		{
			"percent, rounded down",
			rollout.Plan{Batch: one, MaxFailures: rollout.Size{Percent: 29}},
			failed, "paused",
			"3 of 10 hosts failed, and at most 2 may fail", 6,
		},
		{"enough allowed", rollout.Plan{Batch: one, MaxFailures: rollout.Size{Count: 3}}, failed, "done", "", 10},
		{
			"canary",
			rollout.Plan{Batch: one, Canary: 2, MaxFailures: rollout.Size{Count: 3}},
			failed, "paused",
			"1 of 10 hosts failed among the canaries", 2,
		},
		{"away", rollout.Plan{Batch: one}, away, "paused", "1 of 10 hosts failed, and at most 0 may fail", 2},
		{"away, skipped", rollout.Plan{Batch: one, SkipAway: true}, away, "done", "", 10},
		{
			"away, perhaps affected",
			rollout.Plan{Batch: one, SkipAway: true},
			rollout.Fact{Fault: process.AgentUnavailable},
			"paused", "1 of 10 hosts failed, and at most 0 may fail", 2,
		},
		{
			"flapping",
			rollout.Plan{Batch: one, Judged: true, Bake: time.Minute},
			sick, "paused",
			"1 of 10 hosts failed, and at most 0 may fail", 2,
		},
		{"flapping after a stop", rollout.Plan{Batch: one, Bake: time.Minute}, sick, "done", "", 10},
		{
			"never settles",
			rollout.Plan{Batch: one, Judged: true},
			rollout.Fact{Cause: "starting"},
			"paused",
			"1 of 10 hosts failed, and at most 0 may fail", 2,
		},
		{
			"lost in the bake",
			rollout.Plan{Batch: one, Judged: true, Bake: time.Minute},
			rollout.Fact{Health: rollout.Well, Away: true},
			"paused", "1 of 10 hosts failed, and at most 0 may fail", 2,
		},
	} {
		r, now := rollout.New(c.plan, hosts(ten)), epoch
		run(&r, &now, bad(c.fact))
		begun := ten - r.Counts()[rollout.Waiting]
		if r.State != c.state || r.Reason != c.reason || begun != c.begun {
			t.Errorf("%s: %s %q after %d hosts, want %s %q after %d", c.name, r.State, r.Reason, begun, c.state,
				c.reason, c.begun)
		}
	}
}

// TestPeople: what people do needs the right state, and a retry takes the failed hosts only.
func TestPeople(t *testing.T) {
	r, now := rollout.New(rollout.Plan{Batch: rollout.Size{Count: 2}}, hosts(6)), epoch
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
