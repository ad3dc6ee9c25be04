package drive_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/drive"
	"drover/internal/server/fleet"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

var nginx = process.ID{Namespace: "shop", Name: "nginx"}

// rig is a driver over a real database, whose tasks the test carries out.
type rig struct {
	*sqlite.DB
	t      *testing.T
	driver *drive.Driver
	now    time.Time
	away   map[string]bool
	// dies makes Submit fail: before the task is stored, or after that.
	before, after bool
	submitted     []string
}

func newRig(t *testing.T, plan rollout.Plan, agents ...string) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := &rig{DB: db, t: t, now: time.Unix(1_800_000_000, 0), away: map[string]bool{}}
	r.driver = drive.New(drive.Config{
		Store: r, Engine: r, Presence: r, Now: func() time.Time { return r.now }, Log: slog.New(slog.DiscardHandler),
	})
	var hosts []rollout.Host
	for _, a := range agents {
		hosts = append(hosts, rollout.Host{Agent: a, Name: "host-" + a, Processes: []process.ID{nginx}})
	}
	plan.Judged = true
	r.must(db.CreateRollout(t.Context(), &store.Rollout{
		ID: "ro", App: "app", User: "anna", Created: r.now, Op: process.Restart, Processes: []process.ID{nginx},
		Total: len(hosts), Rollout: rollout.New(plan, hosts),
	}, store.AuditRow{}))
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) Presence(key string, _ time.Time) fleet.Presence {
	return fleet.Presence{Joined: true, Away: r.away[key]}
}

func (r *rig) Submit(ctx context.Context, t *store.Task, row store.AuditRow) error {
	if r.before {
		return errors.New("killed before the write")
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

func (r *rig) Cancel(ctx context.Context, id, app string) (store.Cancelled, error) {
	return r.CancelTask(ctx, id, app, r.now)
}

func (r *rig) step() *store.Rollout {
	r.t.Helper()
	if err := r.driver.Step(r.t.Context(), "ro"); err != nil && !r.before {
		r.t.Fatal(err)
	}
	ro, err := r.GetRollout(r.t.Context(), "ro", "")
	r.must(err)
	return ro
}

// end gives the due operations their outcome, and the processes a state. It returns their agents.
func (r *rig) end(fault process.Fault, state string, restarts int) (agents []string) {
	r.t.Helper()
	items, err := r.LeaseItems(r.t.Context(), r.now.Add(time.Hour), r.now.Add(2*time.Hour), 100)
	r.must(err)
	for _, it := range items {
		if it.App != "app" || it.User != "anna" || it.Op != process.Restart || it.Spec != nil || !it.Ordered {
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
	r := newRig(t, rollout.Plan{Batch: rollout.Size{Count: 2}}, "a", "b", "c")
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
	r := newRig(t, rollout.Plan{Batch: rollout.Size{Count: 1}, Bake: time.Minute}, "a", "b")
	r.step()
	r.end("", "running", 0)
	r.step()
	r.now = r.now.Add(30 * time.Second)
	r.wants(r.step(), rollout.Running, 0, rollout.Baking, rollout.Waiting)
	r.observe("a", "running", 1)
	ro := r.step()
	r.wants(ro, rollout.Paused, 0, rollout.Failed, rollout.Waiting)
	if ro.Hosts[0].Cause != "relaunched" || ro.Hosts[0].Text != "shop/nginx is relaunched" {
		t.Errorf("the cause is %q: %s", ro.Hosts[0].Cause, ro.Hosts[0].Text)
	}
}

// TestAbortOfABatchWithoutTask: the rollout is aborted after the decision and before the task. The driver takes the id of
// the task, so that the operation never begins.
func TestAbortOfABatchWithoutTask(t *testing.T) {
	r := newRig(t, rollout.Plan{Batch: rollout.Size{Count: 1}}, "a", "b")
	r.before = true
	r.step()
	r.before = false
	_, err := r.ChangeRollout(t.Context(), "ro", "", (*rollout.Rollout).Abort)
	r.must(err)
	r.step()
	r.wants(r.step(), rollout.Aborted, 0, rollout.Skipped, rollout.Waiting)
	if agents := r.end("", "running", 0); len(agents) > 0 {
		t.Errorf("operated on are %v", agents)
	}
	if open, err := r.OpenRollouts(t.Context()); len(open) > 0 || err != nil {
		t.Errorf("open are %v: %v", open, err)
	}
}

// TestAbortCancelsTheBatch: an operation that waits behind another one never begins.
func TestAbortCancelsTheBatch(t *testing.T) {
	r := newRig(t, rollout.Plan{Batch: rollout.Size{Count: 1}}, "a", "b")
	r.step()
	_, err := r.ChangeRollout(t.Context(), "ro", "", (*rollout.Rollout).Abort)
	r.must(err)
	r.step()
	r.wants(r.step(), rollout.Aborted, 0, rollout.Skipped, rollout.Waiting)
	if agents := r.end("", "running", 0); len(agents) > 0 {
		t.Errorf("operated on are %v", agents)
	}
}
