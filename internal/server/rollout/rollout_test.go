package rollout_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const minute = v1.Duration(time.Minute)

func judged(p v1.RolloutPlan) rollout.Plan { return rollout.Plan{RolloutPlan: p, Judged: true} }

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
	// down are the hosts whose processes do not run.
	down map[string]bool
}

// drive is a step of a server. It may die before it stores its decision, or before it submits the task of the batch; a
// second server may do the same from an old copy.
func (w *world) drive() {
	copyOfOld := w.stored
	facts := w.facts(&w.stored)
	next := rollout.Step(w.stored, facts, w.now)
	w.begins(&next, facts)
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

// begins checks a decision to begin a batch: not before its time, not without the approvals, and not on more hosts than
// may be unavailable.
func (w *world) begins(next *rollout.Rollout, facts map[string]rollout.Fact) {
	w.t.Helper()
	before := &w.stored
	if next.Batch == before.Batch {
		return
	}
	unavailable, reached, disturbed := 0, 0, false
	canaries, others := 0, 0
	for i := range next.Hosts {
		h := &next.Hosts[i]
		begins := h.State == rollout.Begun && before.Hosts[i].State == rollout.Waiting
		if begins || !facts[h.Agent].Up {
			unavailable++
		}
		if h.State != rollout.Waiting {
			reached++
		}
		disturbed = disturbed || begins && facts[h.Agent].Up
		if begins && !next.Plan.MaxUnavailable.IsZero() && !facts[h.Agent].Looked {
			w.t.Errorf("it begins on %s, and nobody has looked at its processes", h.Agent)
		}
		switch {
		case i < next.Plan.Canary && !final(h.State):
			canaries++
		case begins:
			others++
		}
	}
	if canaries > 0 && others > 0 {
		w.t.Errorf("%d hosts begin before or beside %d canaries: %+v", others, canaries, next)
	}
	p := &next.Plan
	if most := p.MaxUnavailable.Number; most > 0 && disturbed && unavailable > most {
		w.t.Errorf("%d hosts are unavailable, at most %d may be: %+v", unavailable, most, next)
	}
	if w.now.Before(next.At) {
		w.t.Errorf("it begins at %s, before its time", w.now)
	}
	if p.Breadth != 0 && reached > max(p.Breadth, 0) && !before.Approvals.Breadth {
		w.t.Errorf("it reaches %d hosts without approval, at most %d may be", reached, p.Breadth)
	}
	if p.CanaryApproval && others > 0 && !before.Approvals.Canaries {
		w.t.Error("it goes on after its canaries without approval")
	}
}

func final(s rollout.HostState) bool {
	return s == rollout.Succeeded || s == rollout.Failed || s == rollout.Skipped
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
	facts, looked := map[string]rollout.Fact{}, w.rng.IntN(5) > 0
	for i := range r.Hosts {
		h := &r.Hosts[i]
		up := !w.down[h.Agent] && w.rng.IntN(5) > 0
		f, known := w.outcome[h.Agent]
		if !known || !w.tasks[h.Batch] || w.rng.IntN(3) == 0 {
			facts[h.Agent] = rollout.Fact{Batch: -1, Up: up, Looked: looked}
			continue // not heard of yet
		}
		f.Up, f.Looked = up, looked
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
	if r.State == rollout.Paused && counts[rollout.Waiting]+counts[rollout.Begun]+counts[rollout.Baking] == 0 {
		w.t.Errorf("it is paused, and nothing is left: %+v", r)
	}
	if (r.State == rollout.Paused || r.State == rollout.Held) && r.Reason == "" {
		w.t.Errorf("it is %s without a reason", r.State)
	}
}

// person does what a person may do.
func (w *world) person() {
	next := w.stored
	next.Hosts = append([]rollout.Host(nil), w.stored.Hosts...)
	var err error
	switch w.rng.IntN(7) {
	case 0:
		err = next.Pause("paused by anna")
	case 5, 6:
		err = next.Approve([]string{"bob", "eve"}[w.rng.IntN(2)], time.Time{})
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
			RolloutPlan: v1.RolloutPlan{
				Batch: v1.HostCount{Number: 1 + rng.IntN(4)}, Canary: rng.IntN(3), SkipAway: rng.IntN(2) == 0,
				MaxFailures: v1.HostCount{Number: rng.IntN(4)},
				Bake:        v1.Duration(rng.IntN(3)) * v1.Duration(time.Second),
				Pause:       v1.Duration(rng.IntN(3)) * v1.Duration(time.Second),
			},
			Judged: rng.IntN(3) > 0,
		}
		if rng.IntN(2) == 0 {
			plan.Batch, plan.MaxFailures = v1.HostCount{Percent: 1 + rng.IntN(50)}, v1.HostCount{Percent: rng.IntN(40)}
		}
		if rng.IntN(2) == 0 {
			plan.MaxUnavailable = v1.HostCount{Number: 1 + rng.IntN(4)}
		}
		if rng.IntN(3) == 0 {
			plan.Breadth = cmp.Or(rng.IntN(11), rollout.NoHost)
		}
		plan.Unproven = rng.IntN(4) == 0
		plan.CanaryApproval = plan.Canary > 0 && rng.IntN(2) == 0
		var at time.Time
		if rng.IntN(4) == 0 {
			at = epoch.Add(time.Minute)
		}
		w := &world{
			t: t, rng: rng, now: epoch, stored: rollout.New(plan, at, hosts(1+rng.IntN(20))),
			given: map[string]int{}, tasks: map[int]bool{}, outcome: map[string]rollout.Fact{},
			health: map[string]rollout.Health{}, away: map[string]bool{}, down: map[string]bool{},
		}
		for range 400 {
			w.now = w.now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
			w.drive()
			if rng.IntN(10) == 0 {
				w.person()
			}
			if rng.IntN(20) == 0 {
				w.away[fmt.Sprint("agent-", rng.IntN(20))] = rng.IntN(2) == 0
				w.down[fmt.Sprint("agent-", rng.IntN(20))] = rng.IntN(3) == 0
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
		{rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Percent: 10}}}, 25, "[2 2 2 2 2 2 2 2 2 2 2 2 1]"},
		{rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 4}, Canary: 2}}, 11, "[2 4 4 1]"},
		{rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Percent: 1}}}, 3, "[1 1 1]"},
		{rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 100}}}, 3, "[3]"},
		{rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, Canary: 5}}, 3, "[3]"},
		{judged(v1.RolloutPlan{Batch: v1.HostCount{Number: 2}, Bake: minute, Pause: minute}), 4, "[2 2]"},
	} {
		r, now := rollout.New(c.plan, time.Time{}, hosts(c.hosts)), epoch
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
	one, ten := v1.HostCount{Number: 1}, 10
	for _, c := range []struct {
		name   string
		plan   rollout.Plan
		fact   rollout.Fact
		state  rollout.State
		reason string
		begun  int
	}{
		{"none allowed", rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one}}, failed, "paused", "1 of 10 hosts failed, and at most 0 may fail", 2},
		{
			"two allowed",
			rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one, MaxFailures: v1.HostCount{Number: 2}}},
			failed, "paused",
			"3 of 10 hosts failed, and at most 2 may fail", 6,
		},
		{
			"percent, rounded down",
			rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one, MaxFailures: v1.HostCount{Percent: 29}}},
			failed, "paused",
			"3 of 10 hosts failed, and at most 2 may fail", 6,
		},
		{"enough allowed", rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one, MaxFailures: v1.HostCount{Number: 3}}}, failed, "done", "", 10},
		{
			"canary",
			rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one, Canary: 2, MaxFailures: v1.HostCount{Number: 3}}},
			failed, "paused",
			"1 of 10 hosts failed among the canaries", 2,
		},
		{"away", rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one}}, away, "paused", "1 of 10 hosts failed, and at most 0 may fail", 2},
		{"away, skipped", rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one, SkipAway: true}}, away, "done", "", 10},
		{
			"away, perhaps affected",
			rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one, SkipAway: true}},
			rollout.Fact{Fault: process.AgentUnavailable},
			"paused", "1 of 10 hosts failed, and at most 0 may fail", 2,
		},
		{
			"flapping",
			judged(v1.RolloutPlan{Batch: one, Bake: minute}),
			sick, "paused",
			"1 of 10 hosts failed, and at most 0 may fail", 2,
		},
		{"flapping after a stop", rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: one, Bake: minute}}, sick, "done", "", 10},
		{
			"never settles",
			judged(v1.RolloutPlan{Batch: one}),
			rollout.Fact{Cause: "starting"},
			"paused",
			"1 of 10 hosts failed, and at most 0 may fail", 2,
		},
		{
			"lost in the bake",
			judged(v1.RolloutPlan{Batch: one, Bake: minute}),
			rollout.Fact{Health: rollout.Well, Away: true},
			"paused", "1 of 10 hosts failed, and at most 0 may fail", 2,
		},
	} {
		r, now := rollout.New(c.plan, time.Time{}, hosts(ten)), epoch
		run(&r, &now, bad(c.fact))
		begun := ten - r.Counts()[rollout.Waiting]
		if r.State != c.state || r.Reason != c.reason || begun != c.begun {
			t.Errorf("%s: %s %q after %d hosts, want %s %q after %d", c.name, r.State, r.Reason, begun, c.state,
				c.reason, c.begun)
		}
	}
}

// all is the fact of every host of a rollout.
// TestUndoing: a plan may have the rollout undone when more hosts fail than may fail, but not after a person has
// accepted the failures, nor after its undo was refused.
func TestUndoing(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	two := v1.RolloutPlan{Batch: v1.HostCount{Number: 2}, UndoOnFailure: true}
	failed := rollout.Fact{Done: true, Fault: process.CheckFailed}
	begun := func(p v1.RolloutPlan) rollout.Rollout {
		return rollout.Step(rollout.New(judged(p), time.Time{}, hosts(4)), nil, now)
	}
	r := rollout.Step(begun(two), map[string]rollout.Fact{"agent-0": failed}, now)
	if !r.Undoing() {
		t.Errorf("after a failure the rollout is %s, and not to be undone", r.State)
	}
	last := rollout.Step(rollout.New(judged(two), time.Time{}, hosts(2)), nil, now)
	last = rollout.Step(last, all(&last, failed), now)
	if !last.Undoing() {
		t.Errorf("after the failure of all hosts the rollout is %s, and not to be undone", last.State)
	}
	resumed := r
	if err := resumed.Resume(); err != nil || resumed.Undoing() {
		t.Errorf("after a resume it is still to be undone: %v", err)
	}
	refused := r
	if err := refused.NotUndone("somebody has changed it"); err != nil || refused.Undoing() ||
		!strings.HasSuffix(refused.Reason, "; it was not undone: somebody has changed it") {
		t.Errorf("after a refusal it says %q: %v", refused.Reason, err)
	}
	if err := resumed.NotUndone("late"); err == nil {
		t.Error("a rollout that goes on takes the refusal of its undo")
	}
	allowed := two
	allowed.MaxFailures = v1.HostCount{Number: 1}
	if r := rollout.Step(begun(allowed), map[string]rollout.Fact{"agent-0": failed}, now); r.Undoing() {
		t.Error("a failure that is allowed has the rollout undone")
	}
	paused := begun(two)
	if err := paused.Pause("by a person"); err != nil || paused.Undoing() {
		t.Errorf("a pause without a failure has the rollout undone: %v", err)
	}
	without := two
	without.UndoOnFailure = false
	if r := rollout.Step(begun(without), map[string]rollout.Fact{"agent-0": failed}, now); r.Undoing() {
		t.Error("a rollout is undone although its plan does not say so")
	}
}

func all(r *rollout.Rollout, f rollout.Fact) map[string]rollout.Fact {
	facts := map[string]rollout.Fact{}
	for i := range r.Hosts {
		f.Batch = r.Hosts[i].Batch
		facts[r.Hosts[i].Agent] = f
	}
	return facts
}

// TestUnavailable: a batch begins smaller or later if other hosts are down, and hosts that are down themselves may begin.
func TestUnavailable(t *testing.T) {
	p := judged(v1.RolloutPlan{Batch: v1.HostCount{Number: 3}, MaxUnavailable: v1.HostCount{Number: 2}})
	r, now := rollout.New(p, time.Time{}, hosts(5)), epoch
	facts := all(&r, rollout.Fact{Up: true, Looked: true})
	facts["agent-4"] = rollout.Fact{Looked: true}
	r = rollout.Step(r, facts, now)
	if n := r.Counts()[rollout.Begun]; n != 1 || r.Hosts[0].State != rollout.Begun || r.Hosts[1].Batch != 1 ||
		r.Hosts[3].Batch != 2 {
		t.Errorf("beside one host that is down %d hosts begin: %+v", n, r.Hosts)
	}
	done := rollout.Fact{Done: true, Up: true, Looked: true, Health: rollout.Well}
	r = rollout.Step(rollout.Step(r, all(&r, done), now), all(&r, done), now)
	facts = all(&r, done)
	facts["agent-4"], facts["agent-0"] = rollout.Fact{Looked: true, Away: true}, rollout.Fact{Looked: true}
	r.Hosts[0].State, r.Batch = rollout.Succeeded, 0
	r.Hosts[1].State, r.Hosts[2].State = rollout.Waiting, rollout.Waiting
	r = rollout.Step(r, facts, now)
	if want := "2 of 5 hosts are unavailable, and at most 2 may be: host-0, host-4"; r.Reason != want || r.State != rollout.Running ||
		r.Counts()[rollout.Begun] != 0 {
		t.Errorf("beside two hosts that are down it is %s %q with %v", r.State, r.Reason, r.Counts())
	}
	facts["agent-4"] = rollout.Fact{Looked: true}
	if r = rollout.Step(r, facts, now); r.Hosts[4].State != rollout.Begun || r.Hosts[4].Batch != 1 ||
		r.Counts()[rollout.Begun] != 1 || r.Reason != "" {
		t.Errorf("a host of a later batch that is down does not begin: %+v", r.Hosts)
	}
}

// TestApproval: a rollout waits for persons after its canaries and before it reaches too many hosts.
func TestApproval(t *testing.T) {
	p := judged(v1.RolloutPlan{Batch: v1.HostCount{Number: 2}, Canary: 1, CanaryApproval: true})
	r, now := rollout.New(p, time.Time{}, hosts(5)), epoch
	if err := r.Approve("bob", time.Time{}); err == nil {
		t.Error("a rollout that waits for nobody is approved")
	}
	run(&r, &now, well)
	if r.State != rollout.Held || r.Batch != 0 || r.Counts()[rollout.Succeeded] != 1 {
		t.Fatalf("after the canary it is %s in batch %d: %v", r.State, r.Batch, r.Counts())
	}
	if err := r.Approve("bob", time.Time{}); err != nil || fmt.Sprint(r.Approvals.By) != "[bob]" {
		t.Fatalf("approved by %v: %v", r.Approvals.By, err)
	}
	if run(&r, &now, well); r.State != rollout.Done {
		t.Errorf("after the approval it is %s: %s", r.State, r.Reason)
	}
	p.CanaryApproval, p.Breadth = false, 3
	r = rollout.New(p, time.Time{}, hosts(5))
	run(&r, &now, well)
	if r.State != rollout.Held || r.Counts()[rollout.Succeeded] != 3 ||
		r.Reason != "more than 3 hosts: waits for the approval of a second person" {
		t.Errorf("it is %s %q with %v", r.State, r.Reason, r.Counts())
	}
	if err := r.Abort(); err != nil || r.State != rollout.Aborted {
		t.Errorf("the abort of a held rollout leaves it %s: %v", r.State, err)
	}
	if n := r.Counts(); n[rollout.Skipped] != 2 || n[rollout.Waiting] != 0 || r.Hosts[4].Cause != rollout.CauseAborted {
		t.Errorf("the abort leaves %v, the last host %+v", n, r.Hosts[4])
	}
}

// TestCanariesAgain: canaries that failed come first again, and none of them may fail. Breadth counts them as reached.
func TestCanariesAgain(t *testing.T) {
	p := judged(v1.RolloutPlan{
		Batch: v1.HostCount{Number: 2}, Canary: 2, CanaryApproval: true, MaxFailures: v1.HostCount{Number: 3},
	})
	r, now := rollout.New(p, time.Time{}, hosts(6)), epoch
	bad := func(h *rollout.Host) rollout.Fact {
		if h.Name == "host-1" {
			return rollout.Fact{Fault: process.Failed}
		}
		return well(h)
	}
	for range 2 {
		run(&r, &now, bad)
		if r.State != rollout.Paused || r.Counts()[rollout.Waiting] != 4 {
			t.Fatalf("with a bad canary it is %s %q with %v", r.State, r.Reason, r.Counts())
		}
		if n, err := r.Retry(false); n != 1 || err != nil || r.Hosts[1].Begun.IsZero() {
			t.Fatalf("retried are %d of %+v: %v", n, r.Hosts[1], err)
		}
	}
	run(&r, &now, bad)
	if err := r.Resume(); err != nil {
		t.Fatal(err)
	}
	run(&r, &now, bad)
	if want := "1 of 2 canaries failed: waits for the approval of a person"; r.State != rollout.Held || r.Reason != want {
		t.Fatalf("after the resume it is %s %q, want %q", r.State, r.Reason, want)
	}
	if err := r.Approve("bob", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if run(&r, &now, well); r.State != rollout.Done || r.Counts()[rollout.Succeeded] != 5 {
		t.Errorf("after the approval it is %s %q with %v", r.State, r.Reason, r.Counts())
	}
}

// TestCanariesInParts: a limit of hosts that are down splits the canaries, and all of them are canaries.
func TestCanariesInParts(t *testing.T) {
	p := judged(v1.RolloutPlan{
		Batch: v1.HostCount{Number: 3}, Canary: 2, MaxUnavailable: v1.HostCount{Number: 1},
		MaxFailures: v1.HostCount{Number: 3},
	})
	r, now := rollout.New(p, time.Time{}, hosts(5)), epoch
	up := func(f rollout.Fact) map[string]rollout.Fact {
		f.Up, f.Looked = true, true
		return all(&r, f)
	}
	r = rollout.Step(r, up(rollout.Fact{}), now)
	for range 2 {
		r = rollout.Step(r, up(rollout.Fact{Done: true, Health: rollout.Well}), now)
	}
	if r.Hosts[0].State != rollout.Succeeded || r.Hosts[1].State != rollout.Begun || r.Counts()[rollout.Waiting] != 3 {
		t.Fatalf("after the first canary: %+v", r.Hosts)
	}
	r = rollout.Step(r, up(rollout.Fact{Done: true, Fault: process.Failed}), now)
	if r.State != rollout.Paused || r.Counts()[rollout.Waiting] != 3 {
		t.Errorf("after the second canary has failed it is %s %q with %v", r.State, r.Reason, r.Counts())
	}
}

// TestApprovalOfTwo: of a rollout that an app began, two persons approve the breadth.
func TestApprovalOfTwo(t *testing.T) {
	p := judged(v1.RolloutPlan{Batch: v1.HostCount{Number: 5}})
	p.Breadth, p.Unproven = 3, true
	r, now := rollout.New(p, time.Time{}, hosts(5)), epoch
	run(&r, &now, well)
	if err := r.Approve("bob", epoch); err != nil || r.State != rollout.Held {
		t.Fatalf("after one person it is %s: %v", r.State, err)
	}
	already := "approved already by bob at " + epoch.UTC().Format(time.RFC3339)
	if err := r.Approve("bob", epoch.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), already) {
		t.Fatalf("the second approval of one person says %v", err)
	}
	if err := r.Approve("eve", epoch); err != nil || r.State != rollout.Running || fmt.Sprint(r.Approvals.By) != "[bob eve]" {
		t.Errorf("after two persons it is %s by %v: %v", r.State, r.Approvals.By, err)
	}
	if err := r.Approve("bob", epoch); err == nil || !strings.Contains(err.Error(), already) {
		t.Errorf("an approval of a rollout that goes on says %v", err)
	}
}

// TestSchedule: a scheduled rollout begins at its time, or up to an hour later; after that a person decides.
func TestSchedule(t *testing.T) {
	at := epoch.Add(time.Hour)
	for late, want := range map[time.Duration]rollout.State{
		-time.Second: rollout.Scheduled, 0: rollout.Running, time.Hour: rollout.Running, time.Hour + 1: rollout.Paused,
	} {
		r := rollout.New(judged(v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}), at, hosts(2))
		r = rollout.Step(r, nil, at.Add(late))
		if begun := r.Counts()[rollout.Begun]; r.State != want || begun > 0 != (want == rollout.Running) {
			t.Errorf("%s after its time it is %s with %d begun hosts", late, r.State, begun)
		}
		if want != rollout.Paused {
			continue
		}
		if r.Reason == "" || r.Resume() != nil {
			t.Errorf("a person cannot begin the missed rollout: %+v", r)
		}
		if r = rollout.Step(r, nil, at.Add(late)); r.Counts()[rollout.Begun] != 1 {
			t.Errorf("a person cannot begin the missed rollout: %+v", r)
		}
	}
}
