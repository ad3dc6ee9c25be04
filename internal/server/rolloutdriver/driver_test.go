package rolloutdriver_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/fleet"
	"drover/internal/server/rollout"
	"drover/internal/server/rolloutdriver"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

var nginx = process.ID{Namespace: "shop", Name: "nginx"}

// rig is a driver over a real database, whose tasks the test carries out.
type rig struct {
	*sqlite.DB
	t      *testing.T
	driver *rolloutdriver.Driver
	now    time.Time
	// behind is how far the clock for people is behind.
	behind time.Duration
	away   map[string]bool
	// removed are the agents that are not in the fleet any more.
	removed map[string]bool
	// dies makes Submit fail: before the task is stored, or after that.
	before, after bool
	submitted     []string
	// id is that of the rollout.
	id string
	// A read of statuses takes readTime. reads and cancels count the calls.
	readTime       time.Duration
	reads, cancels int
	// beside is called before the next task is stored; nil for nothing.
	beside func()
}

func newRig(t *testing.T, plan v1.RolloutPlan, agents ...string) *rig {
	t.Helper()
	return rigOf(t, plan, process.Restart, []store.RolloutStep{{Op: process.Restart, Process: nginx}}, agents...)
}

// rigOf is a rig with a rollout of steps, which each agent carries out.
func rigOf(t *testing.T, plan v1.RolloutPlan, op process.Op, steps []store.RolloutStep, agents ...string) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := &rig{DB: db, t: t, now: time.Unix(1_800_000_000, 0), away: map[string]bool{}, removed: map[string]bool{}, id: "ro"}
	r.driver = rolloutdriver.New(rolloutdriver.Config{
		Store: r, Engine: r, Presence: r, Happened: func() {}, Now: func() time.Time { return r.now },
		Wall: func() time.Time { return r.now.Add(-r.behind) }, Log: slog.New(slog.DiscardHandler),
	})
	var hosts []rollout.Host
	var places []int
	for i := range steps {
		places = append(places, i)
	}
	for _, a := range agents {
		hosts = append(hosts, rollout.Host{Agent: a, Name: "host-" + a, Steps: places})
	}
	r.must(db.CreateRollouts(t.Context(), []*store.Rollout{{
		ID: "ro", App: "app", User: "anna", Created: r.now, Op: op, Steps: steps, Through: "apply", Message: "why",
		Total: len(hosts), Rollout: rollout.New(rollout.Plan{RolloutPlan: plan, Judged: true}, time.Time{}, hosts),
	}}, store.AuditRow{}))
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) Presence(key string, _ time.Time) fleet.Presence {
	return fleet.Presence{Joined: !r.removed[key], Away: r.away[key]}
}

func (r *rig) Submit(ctx context.Context, t *store.Task, row store.AuditRow) error {
	if r.before {
		return errors.New("killed before the write")
	}
	if r.beside != nil {
		r.beside()
	}
	t.Created = r.now
	if _, err := r.CreateTask(ctx, t, row, r.now, 0); err != nil {
		return err
	}
	r.submitted = append(r.submitted, t.ID)
	if r.after {
		return errors.New("killed after the write")
	}
	return nil
}

func (r *rig) Cancel(ctx context.Context, id, app string) (store.CancelCounts, error) {
	r.cancels++
	return r.CancelTask(ctx, id, app, r.now)
}

func (r *rig) GetObserved(ctx context.Context, id process.ID, agents []string, fn func(store.Observed) error) error {
	r.reads++
	r.now = r.now.Add(r.readTime)
	return r.DB.GetObserved(ctx, id, agents, fn)
}

func (r *rig) step() *store.Rollout {
	r.t.Helper()
	if err := r.driver.Step(r.t.Context(), r.id); err != nil && !r.before {
		r.t.Fatal(err)
	}
	ro, err := r.GetRollout(r.t.Context(), r.id, "")
	r.must(err)
	return ro
}

// end gives the due operations their outcome, and the processes a state. It returns their agents.
func (r *rig) end(fault process.Fault, state string, restarts int) (agents []string) {
	r.t.Helper()
	items, err := r.LeaseItems(r.t.Context(), r.now.Add(time.Hour), r.now.Add(2*time.Hour), 100)
	r.must(err)
	for _, it := range items {
		if it.App != "app" || it.User != "anna" || it.Op != process.Restart || it.Spec != nil || !it.Ordered ||
			it.Reason != "rollout "+r.id {
			r.t.Errorf("the operation is %+v", it)
		}
		agents = append(agents, it.Agent)
		r.observe(it.Agent, state, restarts)
		_, err := r.Finish(r.t.Context(), []store.ReportedOutcome{{
			Agent: it.Agent, Item: it.ID, Outcome: process.Outcome{Fault: fault, Text: "text"},
		}})
		r.must(err)
	}
	return agents
}

func (r *rig) observe(agent, state string, restarts int) {
	r.t.Helper()
	r.must(r.PutObserved(r.t.Context(), store.ReportMark{}, []store.Observed{{
		Agent: agent, Process: nginx, Status: process.Status{Known: true, State: state, Restarts: restarts},
		Spec: &process.Spec{},
	}}, nil))
}

func (r *rig) wants(ro *store.Rollout, state rollout.State, batch int, host ...rollout.HostState) {
	r.t.Helper()
	for i, want := range host {
		if ro.Hosts[i].State != want {
			r.t.Errorf("host %d is %s (%s), want %s", i, ro.Hosts[i].State, ro.Hosts[i].Text, want)
		}
	}
	if ro.State != state || ro.Batch != batch {
		r.t.Errorf("the rollout is %s in batch %d, want %s in %d: %s", ro.State, ro.Batch, state, batch, ro.Reason)
	}
}

// TestDriverDies: a driver dies before and after it submits; nobody gets the operation twice, and the rollout ends.
func TestDriverDies(t *testing.T) {
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 2}}, "a", "b", "c")
	r.before = true
	r.wants(r.step(), rollout.Running, 0, rollout.Begun, rollout.Begun, rollout.Waiting)
	r.before, r.after = false, true
	r.wants(r.step(), rollout.Running, 0, rollout.Begun, rollout.Begun, rollout.Waiting)
	r.after = false
	r.step()
	if len(r.submitted) != 1 || r.submitted[0] != "ro-0" {
		t.Fatalf("submitted are %v", r.submitted)
	}
	if agents := r.end("", "running", 0); len(agents) != 2 {
		t.Fatalf("operated on are %v", agents)
	}
	for range 4 {
		r.step()
	}
	if agents := r.end("", "running", 0); len(agents) != 1 || agents[0] != "c" {
		t.Fatalf("operated on are %v", agents)
	}
	for range 3 {
		r.step()
	}
	r.wants(r.step(), rollout.Done, 1, rollout.Succeeded, rollout.Succeeded, rollout.Succeeded)
	if len(r.submitted) != 2 {
		t.Errorf("submitted are %v", r.submitted)
	}
}

// TestBakeSeesRelaunches: a process that crashed and was relaunched has failed, although it runs.
func TestBakeSeesRelaunches(t *testing.T) {
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, Bake: v1.Duration(time.Minute)}, "a", "b")
	r.step()
	r.end("", "running", 0)
	r.step()
	r.now = r.now.Add(30 * time.Second)
	r.wants(r.step(), rollout.Running, 0, rollout.Baking, rollout.Waiting)
	r.observe("a", "running", 1)
	ro := r.step()
	r.wants(ro, rollout.Paused, 0, rollout.Failed, rollout.Waiting)
	if ro.Hosts[0].Cause != "relaunched" || ro.Hosts[0].Text != "shop/nginx was relaunched" {
		t.Errorf("the cause is %q: %s", ro.Hosts[0].Cause, ro.Hosts[0].Text)
	}
}

// TestAbortOfABatchWithoutTask: the rollout is aborted after the decision and before the task. The driver takes the id
// of the task, so that the operation never begins.
func TestAbortOfABatchWithoutTask(t *testing.T) {
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}, "a", "b")
	r.before = true
	r.step()
	r.before = false
	_, err := r.ChangeRollout(t.Context(), "ro", "", store.RolloutChange{}, (*rollout.Rollout).Abort)
	r.must(err)
	r.step()
	r.wants(r.step(), rollout.Aborted, 0, rollout.Skipped, rollout.Skipped)
	if agents := r.end("", "running", 0); len(agents) > 0 {
		t.Errorf("operated on are %v", agents)
	}
	if open, _, err := r.OpenRollouts(t.Context(), r.now); len(open) > 0 || err != nil {
		t.Errorf("open are %v: %v", open, err)
	}
}

// TestAbortCancelsTheBatch: an operation that waits behind another one never begins.
func TestAbortCancelsTheBatch(t *testing.T) {
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}, "a", "b")
	r.step()
	_, err := r.ChangeRollout(t.Context(), "ro", "", store.RolloutChange{}, (*rollout.Rollout).Abort)
	r.must(err)
	r.step()
	r.wants(r.step(), rollout.Aborted, 0, rollout.Skipped, rollout.Skipped)
	if agents := r.end("", "running", 0); len(agents) > 0 {
		t.Errorf("operated on are %v", agents)
	}
}

// TestAbortCancelsOnce: what has begun may take its time, and nothing is cancelled anew all the while.
func TestAbortCancelsOnce(t *testing.T) {
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}, "a", "b")
	r.step()
	items, err := r.LeaseItems(t.Context(), r.now, r.now.Add(time.Hour), 100)
	r.must(err)
	_, err = r.ChangeRollout(t.Context(), "ro", "", store.RolloutChange{}, (*rollout.Rollout).Abort)
	r.must(err)
	for range 20 {
		r.wants(r.step(), rollout.Aborted, 0, rollout.Begun, rollout.Skipped)
	}
	if r.cancels != 1 || len(items) != 1 {
		t.Errorf("%d operations began, and %d tasks were cancelled", len(items), r.cancels)
	}
}

// applied is a rollout of an apply that removes shop/old and changes shop/nginx, on hosts that have both.
func applied(t *testing.T, plan v1.RolloutPlan, agents ...string) (r *rig, old process.ID) {
	t.Helper()
	old = process.ID{Namespace: "shop", Name: "old"}
	r = rigOf(t, plan, store.OpApply, []store.RolloutStep{
		{Op: process.Stop, Process: old, Removes: true},
		{Op: process.Restart, Process: nginx, Spec: &process.Spec{User: "new"}},
	}, agents...)
	for _, a := range agents {
		r.watched(a, old)
		r.watched(a, nginx)
	}
	return r, old
}

// watched has a host report a running process that it watches.
func (r *rig) watched(agent string, id process.ID) {
	r.t.Helper()
	r.must(r.PutObserved(r.t.Context(), store.ReportMark{}, []store.Observed{{
		Agent: agent, Process: id, Spec: &process.Spec{},
		Status: process.Status{Known: true, Hosted: true, State: process.StateRunning, Instance: process.Instance{PID: 7}},
	}}, nil))
}

// did is what the hosts were asked to do, in its order, with success.
func (r *rig) did() (list []string) {
	r.t.Helper()
	for {
		items, err := r.LeaseItems(r.t.Context(), r.now.Add(time.Hour), r.now.Add(2*time.Hour), 100)
		r.must(err)
		if len(items) == 0 {
			return list
		}
		for _, it := range items {
			list = append(list, it.Agent+" "+string(it.Op)+" "+it.Process.Name)
			if it.Op == process.Stop {
				r.must(r.PutObserved(r.t.Context(), store.ReportMark{}, []store.Observed{{
					Agent: it.Agent, Process: it.Process, Spec: &process.Spec{},
					Status: process.Status{Known: true, State: process.StateStopped, Want: process.WantStopped},
				}}, nil))
			}
			_, err := r.Finish(r.t.Context(), []store.ReportedOutcome{{Agent: it.Agent, Item: it.ID}})
			r.must(err)
		}
	}
}

// TestApply: each host carries out its steps in their order, and then forgets what it has stopped for that. Each batch
// is a revision with the hosts of the batch, and nothing happens twice.
func TestApply(t *testing.T) {
	r, old := applied(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, Bake: v1.Duration(time.Minute)}, "a", "b")
	for _, agent := range []string{"a", "b"} {
		r.step()
		if did := r.did(); !slices.Equal(did, []string{agent + " stop old", agent + " restart nginx"}) {
			t.Fatalf("the batch of %s did %q", agent, did)
		}
		number := int64(len(r.submitted)/2 + 1)
		placed, err := r.PlacedAt(t.Context(), "shop", number)
		r.must(err)
		if n := slices.IndexFunc(placed, func(p store.Placed) bool { return p.Agent == agent && p.Spec.Revision == number }); n < 0 {
			t.Errorf("revision %d has %+v", number, placed)
		}
		if placed := slices.ContainsFunc(placed, func(p store.Placed) bool { return p.Agent == "b" }); placed != (agent == "b") {
			t.Errorf("with the batch of %s the other host has the revision: %v", agent, placed)
		}
		r.step()
		r.step() // it is settled, and the removal begins
		if did := r.did(); !slices.Equal(did, []string{agent + " unregister old"}) {
			t.Fatalf("after the batch %s did %q", agent, did)
		}
		r.must(r.PutObserved(t.Context(), store.ReportMark{}, nil, []store.Removal{{Agent: agent, Process: old}}))
		r.now = r.now.Add(time.Minute)
	}
	for range 3 {
		r.step()
	}
	r.wants(r.step(), rollout.Done, 1, rollout.Succeeded, rollout.Succeeded)
	if !slices.Equal(r.submitted, []string{"ro-0", "ro-0-unregister", "ro-1", "ro-1-unregister"}) {
		t.Errorf("submitted are %q", r.submitted)
	}
}

// TestApplyOverDeaths: at each step of an apply a driver dies before it submits, and another one after that. Each host
// does each step once, and keeps nothing that was to be removed.
func TestApplyOverDeaths(t *testing.T) {
	r, old := applied(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 2}}, "a", "b", "c")
	done := map[string]int{}
	for range 12 {
		for _, dies := range []struct{ before, after bool }{{true, false}, {false, true}} {
			r.before, r.after = dies.before, dies.after
			r.step()
			r.before, r.after = false, false
			for _, one := range r.did() {
				done[one]++
				if agent, removed := strings.CutSuffix(one, " unregister old"); removed {
					r.must(r.PutObserved(t.Context(), store.ReportMark{}, nil, []store.Removal{{Agent: agent, Process: old}}))
				}
			}
		}
	}
	r.wants(r.step(), rollout.Done, 1, rollout.Succeeded, rollout.Succeeded, rollout.Succeeded)
	for _, agent := range []string{"a", "b", "c"} {
		for _, step := range []string{" stop old", " restart nginx", " unregister old"} {
			if n := done[agent+step]; n != 1 {
				t.Errorf("%s%s happened %d times: %v", agent, step, n, done)
			}
		}
	}
}

// TestApplyLeavesWhatWasStopped: somebody has stopped a process since the plan. Its batch changes the spec, and does
// not start it.
func TestApplyLeavesWhatWasStopped(t *testing.T) {
	r, old := applied(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}, "a")
	r.must(r.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{{
		Agent: "a", Process: nginx, Spec: &process.Spec{},
		Status: process.Status{Known: true, State: process.StateStopped, Want: process.WantStopped},
	}}, []store.Removal{{Agent: "a", Process: old}}))
	r.step()
	if did := r.did(); !slices.Equal(did, []string{"a update nginx"}) {
		t.Errorf("the batch did %q", did)
	}
	for range 3 {
		r.step()
	}
	r.wants(r.step(), rollout.Done, 0, rollout.Succeeded)
}

// TestApplyOverWhatWasRemoved: the text tells a process that somebody has removed from a host that was removed.
func TestApplyOverWhatWasRemoved(t *testing.T) {
	former := []store.RolloutStep{{
		Op: process.Restart, Process: nginx, Spec: &process.Spec{User: "new"}, Former: &process.Spec{User: "old"},
	}}
	r := rigOf(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 2}}, store.OpApply, former, "a", "b")
	r.removed["b"] = true
	r.step()
	ro := r.step()
	for i, want := range []string{"was removed since the plan: stays removed", "the host was removed from the fleet since the plan"} {
		if h := ro.Hosts[i]; h.State != rollout.Skipped || h.Cause != rollout.CauseCancelled || h.Text != want {
			t.Errorf("%s: %s, %s, %q, want %q", h.Name, h.State, h.Cause, h.Text, want)
		}
	}
}

// TestOperationLeavesWhatWasStopped: somebody has stopped a process since the rollout of a restart began. Its batch
// leaves the host as it is, and says who that was. A process that was stopped before is started, and a stop goes
// through.
func TestOperationLeavesWhatWasStopped(t *testing.T) {
	for name, c := range map[string]struct {
		op    process.Op
		since time.Duration
		cause process.CauseID
		want  rollout.HostState
	}{
		"stopped since":  {process.Restart, time.Minute, process.CauseStopped, rollout.Skipped},
		"start":          {process.Start, time.Minute, process.CauseStopped, rollout.Skipped},
		"stopped before": {process.Restart, 0, process.CauseStopped, rollout.Begun},
		"crashed since":  {process.Restart, time.Minute, process.CauseExited, rollout.Begun},
		"a stop":         {process.Stop, time.Minute, process.CauseStopped, rollout.Begun},
	} {
		r := rigOf(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}, c.op, []store.RolloutStep{{Op: c.op, Process: nginx}}, "a")
		r.must(r.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{{
			Agent: "a", Process: nginx, Spec: &process.Spec{}, Status: process.Status{
				Known: true, State: process.StateStopped, Want: process.WantStopped,
				Cause: process.Cause{ID: c.cause, Text: "stopped by ben", Since: r.now.Add(c.since).UnixMilli()},
			},
		}}, nil))
		r.now = r.now.Add(2 * time.Minute)
		r.step()
		ro := r.step()
		h := ro.Hosts[0]
		if h.State != c.want {
			t.Errorf("%s: the host is %s (%s), want %s", name, h.State, h.Text, c.want)
		}
		const text = "left as it is: shop/nginx: stopped by ben since the plan"
		if c.want == rollout.Skipped && (h.Cause != rollout.CauseChanged || h.Text != text) {
			t.Errorf("%s: %s %q, want %q", name, h.Cause, h.Text, text)
		}
	}
}

// TestApplyLeavesWhatWasChanged: somebody has given a host another spec since the rollout began. Its batch leaves the
// whole host as it is, in words, also after a resume and another driver. Upkeep is not somebody, nor is the way back.
func TestApplyLeavesWhatWasChanged(t *testing.T) {
	former, target := &process.Spec{User: "old"}, &process.Spec{User: "new"}
	for name, c := range map[string]struct {
		through string
		spec    *process.Spec
		left    bool
	}{
		"another spec":   {v1.ThroughOperation, &process.Spec{User: "by hand"}, true},
		"upkeep":         {v1.ThroughSelection, &process.Spec{User: "older file"}, false},
		"the new spec":   {v1.ThroughOperation, target, false},
		"the former one": {v1.ThroughOperation, former, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := rigOf(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}, store.OpApply, []store.RolloutStep{
				{Op: process.Stop, Process: process.ID{Namespace: "shop", Name: "old"}, Removes: true},
				{Op: process.Restart, Process: nginx, Spec: target, Former: former},
			}, "a", "b")
			for _, agent := range []string{"a", "b"} {
				r.watched(agent, process.ID{Namespace: "shop", Name: "old"})
				r.watched(agent, nginx)
			}
			r.step()
			r.did()
			r.now = r.now.Add(time.Second)
			_, err := r.CreateTask(t.Context(), &store.Task{
				ID: "op", App: "shop", User: "ben", Created: r.now, Through: c.through,
				Requests: []store.Request{{Op: process.Update, Process: nginx, Spec: c.spec, Targets: []store.Target{
					{ItemKey: "b", Spelling: "b", Agent: "b", Outcome: nil},
				}}},
			}, store.AuditRow{}, r.now, 0)
			r.must(err)
			r.did()
			var ro *store.Rollout
			var did []string
			for range 6 {
				ro = r.step()
				did = append(did, r.did()...)
			}
			want := []string{"a unregister old", "b stop old", "b restart nginx"}
			state := rollout.Succeeded
			if c.left {
				want, state = want[:1], rollout.Skipped
			}
			if did = slices.DeleteFunc(did, func(s string) bool { return s == "b unregister old" }); !slices.Equal(did, want) {
				t.Errorf("the hosts did %q, want %q", did, want)
			}
			r.wants(ro, rollout.Done, 1, rollout.Succeeded, state)
			if h := ro.Hosts[1]; c.left && (h.Cause != rollout.CauseChanged ||
				h.Text != "left as it is: shop/ben has changed shop/nginx since the plan (revision 2)") {
				t.Errorf("the host is left because of %s: %s", h.Cause, h.Text)
			}
		})
	}
}

// TestRevisionBesideABatch: a revision between the look at the hosts and the task of the batch delays the task.
func TestRevisionBesideABatch(t *testing.T) {
	r := rigOf(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}, store.OpApply, []store.RolloutStep{
		{Op: process.Restart, Process: nginx, Spec: &process.Spec{User: "new"}, Former: &process.Spec{}},
	}, "a")
	r.watched("a", nginx)
	r.beside = func() {
		r.beside = nil
		r.now = r.now.Add(time.Second)
		_, err := r.CreateTask(t.Context(), &store.Task{
			ID: "op", App: "shop", User: "ben", Created: r.now, Through: v1.ThroughOperation,
			Requests: []store.Request{{
				Op: process.Update, Process: nginx, Spec: &process.Spec{User: "by hand"},
				Targets: []store.Target{{ItemKey: "a", Spelling: "a", Agent: "a"}},
			}},
		}, store.AuditRow{}, r.now, 0)
		r.must(err)
	}
	for range 4 {
		r.step()
	}
	r.wants(r.step(), rollout.Done, 0, rollout.Skipped)
}

// TestTimeForPeople: a scheduled rollout begins by the clock of the machine, and not by the clock of the database.
func TestTimeForPeople(t *testing.T) {
	r := newRig(t, v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}, "a")
	if _, err := r.ChangeRollout(t.Context(), "ro", "", store.RolloutChange{}, (*rollout.Rollout).Abort); err != nil {
		t.Fatal(err)
	}
	r.behind = 8 * time.Hour // somebody has set the machine's clock back since the server began
	at := r.now.Add(-r.behind + time.Hour)
	id := store.RolloutMark + "at"
	err := r.CreateRollouts(t.Context(), []*store.Rollout{{
		Rollout: rollout.New(rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}}, at,
			[]rollout.Host{{Agent: "a", Name: "host-a", Steps: []int{0}}}),
		ID: id, Op: process.Restart, Steps: []store.RolloutStep{{Op: process.Restart, Process: nginx}},
	}}, store.AuditRow{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		passed time.Duration
		want   rollout.State
	}{{59 * time.Minute, rollout.Scheduled}, {time.Minute, rollout.Running}} {
		r.now = r.now.Add(c.passed)
		if err := r.driver.Step(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		ro, err := r.GetRollout(t.Context(), id, "")
		if err != nil || !ro.At.Equal(at) || ro.State != c.want {
			t.Errorf("%s later it is %s and begins at %s: %v", c.passed, ro.State, ro.At, err)
		}
	}
}

// TestMaxUnavailable: a batch waits for a host whose process is down, and goes on when it runs again.
func TestMaxUnavailable(t *testing.T) {
	one := v1.HostCount{Number: 1}
	r := newRig(t, v1.RolloutPlan{Batch: one, MaxUnavailable: one}, "a", "b", "c")
	for _, agent := range []string{"a", "b", "c"} {
		r.observe(agent, "running", 0)
	}
	r.away["c"] = true
	ro := r.step()
	r.wants(ro, rollout.Running, -1, rollout.Waiting, rollout.Waiting, rollout.Waiting)
	if ro.Reason != "1 of 3 hosts are unavailable, and at most 1 may be: host-c" {
		t.Errorf("it says %q", ro.Reason)
	}
	r.away["c"], r.away["b"] = false, true
	r.wants(r.step(), rollout.Running, -1, rollout.Waiting, rollout.Waiting, rollout.Waiting)
	r.away["b"] = false
	ro = r.step()
	r.wants(ro, rollout.Running, 0, rollout.Begun, rollout.Waiting, rollout.Waiting)
	if ro.Reason != "" {
		t.Errorf("it says %q", ro.Reason)
	}
}

// TestWaitingCostsLittle: a rollout that waits counts the hosts that are up more rarely, the longer a count takes.
func TestWaitingCostsLittle(t *testing.T) {
	one := v1.HostCount{Number: 1}
	r := newRig(t, v1.RolloutPlan{Batch: one, MaxUnavailable: one}, "a", "b")
	r.observe("a", "running", 0)
	r.observe("b", "running", 0)
	r.away["b"] = true
	r.readTime = 2 * time.Second
	for range 200 {
		r.now = r.now.Add(time.Second)
		r.wants(r.step(), rollout.Running, -1, rollout.Waiting, rollout.Waiting)
	}
	if r.reads < 9 || r.reads > 12 {
		t.Errorf("it has counted %d times in 200 s", r.reads)
	}
	r.away["b"] = false
	r.now = r.now.Add(time.Minute)
	r.wants(r.step(), rollout.Running, 0, rollout.Begun, rollout.Waiting)
}

// TestUpgradeOfAgents: the agent is no process, so a host is well if it is connected at the end of the bake.
func TestUpgradeOfAgents(t *testing.T) {
	op := process.UpgradeOp("1.4.0")
	plan := v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, Bake: v1.Duration(30 * time.Second)}
	r := rigOf(t, plan, op, []store.RolloutStep{{Op: op, Process: process.AgentID()}}, "a", "b", "c")
	upgraded := func() {
		t.Helper()
		items, err := r.LeaseItems(t.Context(), r.now.Add(time.Hour), r.now.Add(2*time.Hour), 100)
		r.must(err)
		if len(items) != 1 || items[0].Op != op || items[0].Process != process.AgentID() || items[0].Spec != nil {
			t.Fatalf("the operations are %+v", items)
		}
		_, err = r.Finish(t.Context(), []store.ReportedOutcome{{
			Agent: items[0].Agent, Item: items[0].ID, Outcome: process.Outcome{Text: "upgraded"},
		}})
		r.must(err)
	}
	r.wants(r.step(), rollout.Running, 0, rollout.Begun, rollout.Waiting, rollout.Waiting)
	upgraded()
	r.wants(r.step(), rollout.Running, 0, rollout.Baking, rollout.Waiting, rollout.Waiting)
	r.now = r.now.Add(31 * time.Second)
	r.step()
	r.wants(r.step(), rollout.Running, 1, rollout.Succeeded, rollout.Begun, rollout.Waiting)
	upgraded()
	r.wants(r.step(), rollout.Running, 1, rollout.Succeeded, rollout.Baking, rollout.Waiting)
	r.away["b"] = true
	r.now = r.now.Add(31 * time.Second)
	r.wants(r.step(), rollout.Paused, 1, rollout.Succeeded, rollout.Failed, rollout.Waiting)
}
