package upkeepdriver_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
	"drover/internal/server/upkeep"
	"drover/internal/server/upkeepdriver"
	"drover/internal/wire"
)

var web = process.ID{Namespace: "shop", Name: "web"}

// rig is a driver over a real database. The test is the agents.
type rig struct {
	*sqlite.DB
	t      *testing.T
	now    time.Time
	hosts  []store.Agent
	away   map[string]bool
	rights map[string]access.Principal
	care   *upkeepdriver.Driver
	// before and after make Submit fail: before the task is stored, or after that.
	before, after bool
	// between is called once, between the decision of a server and its write.
	between func()
	applies int
	// carried has what agents have carried out, as "operation process@host revision".
	carried []string
	deaf    bool // agents carry nothing out
	// live is what an agent says of its running process, by the name of the host; asked counts the questions.
	live  map[string]string
	asked atomic.Int64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := &rig{
		DB: db, t: t, now: time.Unix(1_800_000_000, 0), away: map[string]bool{},
		rights: map[string]access.Principal{"shop": {App: "shop", Admin: true}},
	}
	r.care = r.server()
	return r
}

// server returns another driver of the same fleet.
func (r *rig) server() *upkeepdriver.Driver {
	return upkeepdriver.New(upkeepdriver.Config{
		Store: r, Engine: r, Directory: r, Rights: r, Live: r, Now: func() time.Time { return r.now },
		Log: slog.New(slog.DiscardHandler),
	})
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) After(p fleet.Place) iter.Seq[store.Agent] {
	return func(yield func(store.Agent) bool) {
		for _, a := range r.hosts {
			if fleet.PlaceOf(a).Compare(p) > 0 && !yield(a) {
				return
			}
		}
	}
}

func (r *rig) ByKey(key string) (store.Agent, bool) {
	i := slices.IndexFunc(r.hosts, func(a store.Agent) bool { return a.Key == key })
	if i < 0 {
		return store.Agent{}, false
	}
	return r.hosts[i], true
}

func (r *rig) Presence(key string, _ time.Time) fleet.Presence {
	return fleet.Presence{Joined: true, Away: r.away[key]}
}

func (r *rig) Acting(_ context.Context, app, _ string) (access.Principal, error) {
	p, known := r.rights[app]
	if !known {
		return p, &gate.Refusal{Reason: gate.UnknownApp}
	}
	return p, nil
}

func (r *rig) Submit(ctx context.Context, t *store.Task, row store.AuditRow) error {
	if r.before {
		return errors.New("killed before the write")
	}
	if f := r.between; f != nil {
		r.between = nil
		f()
	}
	t.Created = r.now
	if _, err := r.CreateTask(ctx, t, row, r.now, 0); err != nil {
		return err
	}
	if r.after {
		return errors.New("killed after the write")
	}
	return nil
}

func (r *rig) Live(_ context.Context, agent string, q wire.LiveQuestion) (wire.LiveAnswer, error) {
	r.asked.Add(1)
	var a wire.LiveAnswer
	for _, id := range q.Processes {
		p := wire.LiveProcess{Process: id, PID: 7}
		if field := r.live[strings.TrimPrefix(agent, "key-")]; field != "" {
			path, cannot := strings.CutSuffix(field, " cannot be set")
			path, gone := strings.CutSuffix(path, " is gone")
			p.Fields = []process.LiveField{{Path: path, Want: "100"}}
			if gone {
				p.Fields[0].Problem = "gone"
			}
			if cannot {
				p.Fields[0].Want = ""
			}
		}
		a.Processes = append(a.Processes, p)
	}
	return a, nil
}

// label makes a host, or changes the label of one.
func (r *rig) label(name, role string) {
	a := store.Agent{Key: "key-" + name, ID: name, IP: name, Labels: map[string]string{"role": role}}
	if i := slices.IndexFunc(r.hosts, func(b store.Agent) bool { return b.Key == a.Key }); i >= 0 {
		r.hosts[i] = a
		return
	}
	r.must(r.PutAgent(r.t.Context(), a))
	r.hosts = append(r.hosts, a)
	slices.SortFunc(r.hosts, func(a, b store.Agent) int { return fleet.PlaceOf(a).Compare(fleet.PlaceOf(b)) })
}

// spec returns the spec of web with a command.
func spec(line string, leave v1.Leave) *process.Spec {
	return &process.Spec{Run: line, Leave: leave}
}

// apply is an apply of a file with the process on hosts with role=web, and only there.
func (r *rig) apply(s *process.Spec) {
	r.t.Helper()
	r.applies++
	change := store.SelectionChange{Namespace: "shop", Entries: []string{"web"}, Now: []store.Selection{{
		Process: web, Selector: "role=web", Spec: s, App: "shop", User: "anna", At: r.now,
	}}}
	request := store.Request{Op: process.Start, Process: web, Spec: s}
	for _, a := range r.hosts {
		if a.Labels["role"] == "web" {
			change.Members = append(change.Members, store.ObservedKey{Agent: a.Key, Process: web})
			request.Targets = append(request.Targets, store.Target{ItemKey: a.Key, Spelling: a.ID, Agent: a.Key})
		}
	}
	t := &store.Task{
		ID: fmt.Sprint("apply-", r.applies), App: "shop", User: "anna", Through: "apply", Selections: &change, Created: r.now,
		Requests: []store.Request{request}, Ordered: true,
	}
	_, err := r.CreateTask(r.t.Context(), t, store.AuditRow{}, r.now, 0)
	r.must(err)
	r.agents()
}

// operate is an operation of a person on one host.
func (r *rig) operate(op process.Op, host string) {
	r.t.Helper()
	r.applies++
	t := &store.Task{
		ID: fmt.Sprint("op-", r.applies), App: "shop", User: "ben", Through: "operation", Created: r.now,
		Requests: []store.Request{{Op: op, Process: web, Targets: []store.Target{
			{ItemKey: host, Spelling: host, Agent: "key-" + host},
		}}},
	}
	_, err := r.CreateTask(r.t.Context(), t, store.AuditRow{}, r.now, 0)
	r.must(err)
	r.agents()
}

// agents carry out what is under way, and report it.
func (r *rig) agents() {
	r.t.Helper()
	for !r.deaf {
		items, err := r.LeaseItems(r.t.Context(), r.now, r.now.Add(time.Hour), 1000)
		r.must(err)
		if len(items) == 0 {
			return
		}
		for _, it := range items {
			outcome := process.Outcome{Text: process.Success}
			if r.away[it.Agent] {
				outcome = process.Outcome{Fault: process.AgentUnavailable, Text: "away"}
			} else {
				r.carryOut(it)
			}
			_, err := r.Finish(r.t.Context(), []store.ReportedOutcome{{Agent: it.Agent, Item: it.ID, Outcome: outcome}})
			r.must(err)
		}
	}
}

func (r *rig) carryOut(it store.Item) {
	r.t.Helper()
	o := store.Observed{Agent: it.Agent, Process: it.Process, Spec: it.Spec}
	revision := int64(0)
	if o.Spec == nil {
		r.must(r.GetObserved(r.t.Context(), it.Process, []string{it.Agent}, func(have store.Observed) error {
			o = have
			return nil
		}))
	} else {
		revision = o.Spec.Revision
	}
	r.carried = append(r.carried, fmt.Sprintf("%s %s %d", it.Op, strings.TrimPrefix(it.Agent, "key-"), revision))
	switch it.Op { //nolint:exhaustive // the operations of these tests
	case process.Start, process.Restart:
		o.Status = process.Status{
			Known: true, Hosted: true, State: process.StateRunning, Want: process.WantRunning,
			Instance: process.Instance{PID: 7},
		}
	case process.Stop:
		o.Status = process.Status{Known: true, State: process.StateStopped, Want: process.WantStopped}
	case process.Update:
		r.must(r.GetObserved(r.t.Context(), it.Process, []string{it.Agent}, func(have store.Observed) error {
			o.Status = have.Status
			return nil
		}))
	case process.Unregister:
		r.must(r.PutObserved(r.t.Context(), store.ReportMark{Agent: it.Agent}, nil,
			[]store.Removal{{Agent: it.Agent, Process: it.Process, At: r.now}}))
		return
	}
	r.must(r.PutObserved(r.t.Context(), store.ReportMark{Agent: it.Agent}, []store.Observed{o}, nil))
}

// rounds lets the driver look, and checks what agents have carried out since the last call.
func (r *rig) rounds(what string, want ...string) {
	r.t.Helper()
	for range 6 {
		r.now = r.now.Add(10 * time.Second)
		_, err := r.care.Round(r.t.Context())
		r.must(err)
		r.agents()
	}
	got := r.carried
	r.carried = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestSelectionStaysInForce(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b"} {
		r.label(name, "web")
	}
	r.label("c", "db")
	r.apply(spec("one", ""))
	r.carried = nil
	r.rounds("after the apply")

	r.label("d", "web")
	r.label("c", "web")
	r.rounds("hosts come to match", "start c 2", "start d 2")

	r.label("c", "db")
	r.rounds("a host ceases to match, and keeps the process")
	r.label("c", "web")
	r.rounds("it matches again")

	rows, _, err := r.ListRevisions(t.Context(), store.RevisionFilter{Namespace: "shop"}, 10)
	r.must(err)
	if n := len(rows); n != 2 || rows[0].Through != "selection" || rows[0].App != "shop" || rows[0].User != "anna" ||
		rows[0].Message != "hosts came to match" {
		t.Errorf("the revisions are %+v", rows)
	}
	tasks, err := r.ListTasks(t.Context(), store.TaskFilter{}, 0, 1)
	r.must(err)
	if len(tasks) != 1 || tasks[0].User != "anna" || tasks[0].Reason != "hosts came to match" {
		t.Errorf("the last task is %+v", tasks)
	}
}

func TestLeaveStop(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.label("b", "web")
	r.apply(spec("one", process.LeaveStop))
	r.carried = nil
	r.rounds("after the apply")

	r.label("a", "db")
	r.rounds("a host ceases to match", "stop a 0", "unregister a 0")
	r.label("a", "web")
	r.rounds("it matches again", "start a 3")

	r.away["key-b"] = true
	r.label("b", "db")
	r.rounds("a host ceases to match while it is away")
	r.away["key-b"] = false
	r.rounds("it returns", "stop b 0", "unregister b 0")

	r.operate(process.Stop, "a")
	r.carried = nil
	r.label("a", "db")
	r.rounds("a stopped process", "unregister a 0")
}

// TestAway: a host that was away during an apply gets the revision when it returns, and nothing else.
func TestAway(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.label(name, "web")
	}
	r.apply(spec("one", ""))
	r.away["key-b"], r.away["key-c"] = true, true
	r.now = r.now.Add(time.Minute)
	r.apply(spec("two", ""))
	r.operate(process.Stop, "c") // it never runs
	r.carried = nil
	r.rounds("while they are away")
	r.away["key-b"], r.away["key-c"] = false, false
	r.rounds("they return", "restart b 2", "restart c 2")
	r.rounds("then")
}

// TestRejected: what a host has rejected, or a person has cancelled, is not repeated.
func TestRejected(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.apply(spec("one", ""))
	r.deaf = true
	r.apply(spec("two", ""))
	_, err := r.CancelTask(t.Context(), "apply-2", "", r.now)
	r.must(err)
	r.deaf = false
	r.carried = nil
	r.rounds("cancelled")
	if _, err := r.PruneTasks(t.Context(), r.now.Add(time.Hour), 10); err != nil {
		t.Fatal(err)
	}
	r.rounds("after the task is gone")
}

// TestPersonStands: what a person did on one host is not undone.
func TestPersonStands(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.label("b", "web")
	r.apply(spec("one", ""))
	r.operate(process.Stop, "a")
	r.operate(process.Unregister, "b")
	r.carried = nil
	r.rounds("after a stop and a removal")
	r.away["key-a"] = true
	r.rounds("away")
	r.now = r.now.Add(time.Minute)
	r.apply(spec("two", ""))
	r.carried = nil
	r.away["key-a"] = false
	r.rounds("a stopped process gets the revision and stays stopped", "update a 3")
	o := r.observed("key-a")
	if o.Status.Want != process.WantStopped || o.Spec.Run != "two" {
		t.Errorf("it is %+v", o)
	}
}

func (r *rig) observed(agent string) (o store.Observed) {
	r.t.Helper()
	r.must(r.GetObserved(r.t.Context(), web, []string{agent}, func(have store.Observed) error {
		o = have
		return nil
	}))
	return o
}

// TestRights: the rights of the person who applied the file count at the time of the order.
func TestRights(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.apply(spec("one", process.LeaveStop))
	r.rights["shop"] = access.Principal{App: "shop", Grants: []access.Grant{{
		Operations: []string{access.Operate}, Namespaces: []string{"shop"},
		Hosts: []string{"a", "b"},
	}}}
	r.carried = nil
	r.label("b", "web")
	r.label("c", "web")
	r.rounds("a host within reach and another one", "start b 2")
	delete(r.rights, "shop")
	r.label("a", "db")
	r.label("d", "web")
	r.rounds("an app that is gone")
}

// TestServersDie: a server may die around the write, and two servers may look at the same time. Each host gets one
// start.
func TestServersDie(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.apply(spec("one", ""))
	r.carried = nil
	for i := range 30 {
		r.label(fmt.Sprintf("n%02d", i), "web")
		r.before, r.after = i%3 == 1, i%3 == 2
		for range 3 {
			r.now = r.now.Add(5 * time.Second)
			_, _ = r.server().Round(t.Context()) // a new server knows nothing
			_, _ = r.care.Round(t.Context())
			r.before, r.after = false, false
		}
		r.agents()
	}
	slices.Sort(r.carried)
	if n := len(r.carried); n != 30 || len(slices.Compact(slices.Clone(r.carried))) != 30 {
		t.Errorf("%d orders: %q", n, r.carried)
	}
}

// TestTwoServersAtOnce: two servers decide from the same facts, and each host gets one order.
func TestTwoServersAtOnce(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.apply(spec("one", ""))
	r.away["key-a"] = true
	r.now = r.now.Add(time.Minute)
	r.apply(spec("two", ""))
	other := func() {
		_, err := r.server().Round(t.Context())
		r.must(err)
		r.agents()
	}
	r.carried, r.between = nil, other
	r.label("b", "web")
	r.rounds("a host comes to match", "start b 3")
	r.between, r.away["key-a"] = other, false
	r.rounds("a host returns", "restart a 2")
	r.between = other
	r.label("c", "web")
	r.rounds("another host comes to match", "start c 4")
}

// TestInTurn: many hosts that come at once go in turn.
func TestInTurn(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.apply(spec("one", ""))
	const hosts = 700
	for i := range hosts {
		r.label(fmt.Sprintf("n%03d", i), "web")
	}
	r.deaf = true
	for range 5 {
		r.now = r.now.Add(2 * time.Second)
		_, err := r.care.Round(t.Context())
		r.must(err)
	}
	if open, err := r.OpenItems(t.Context()); err != nil || open != 200 {
		t.Errorf("%d orders are open: %v", open, err)
	}
	r.deaf, r.carried = false, nil
	r.agents()
	for range 20 {
		r.now = r.now.Add(2 * time.Second)
		_, err := r.care.Round(t.Context())
		r.must(err)
		r.agents()
	}
	if len(r.carried) != hosts {
		t.Errorf("%d hosts were started, want %d", len(r.carried), hosts)
	}
}

// TestMend: a running process that has drifted is restarted if the file says so, ever more rarely, and never if
// somebody has stopped it.
func TestMend(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b", "c"} {
		r.label(name, "web")
	}
	r.apply(spec("one", ""))
	r.live = map[string]string{"a": "executable"}
	r.carried = nil
	r.rounds("drift is only reported")
	if n := r.asked.Load(); n != 0 {
		t.Errorf("%d questions were asked", n)
	}
	mends := spec("one", "")
	mends.Drift = process.DriftMend
	r.apply(mends)
	r.operate(process.Stop, "c")
	r.live = map[string]string{"a": "limits.open_files", "b": "run", "c": "user"}
	r.carried = nil
	r.rounds("drift is mended", "restart a 2")
	r.now = r.now.Add(6 * time.Minute)
	r.rounds("it drifts again", "restart a 2")
	r.live = map[string]string{"a": "limits.memory cannot be set"}
	r.now = r.now.Add(6 * time.Minute)
	r.rounds("a restart would not help")
	if n := r.asked.Load(); n < 4 || n > 8 {
		t.Errorf("%d questions were asked", n)
	}
}

// TestRollout: hosts that an active rollout has still to reach are its own.
func TestRollout(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.apply(spec("one", ""))
	plan := rollout.Plan{RolloutPlan: v1.RolloutPlan{Batch: v1.HostCount{Number: 1}}}
	r.must(r.CreateRollouts(t.Context(), []*store.Rollout{{
		ID: "ro", App: "shop", Created: r.now, Op: process.Restart, Total: 1,
		Steps:   []store.RolloutStep{{Op: process.Restart, Process: web}},
		Rollout: rollout.New(plan, r.now.Add(time.Hour), []rollout.Host{{Agent: "key-a", Name: "a", Steps: []int{0}}}),
	}}, store.AuditRow{}))
	r.carried = nil
	r.label("b", "web")
	for _, state := range []rollout.State{rollout.Scheduled, rollout.Running, rollout.Paused, rollout.Held} {
		_, err := r.ChangeRollout(t.Context(), "ro", "", store.RolloutChange{}, func(r *rollout.Rollout) error {
			r.State = state
			return nil
		})
		r.must(err)
		r.rounds("while the rollout is " + string(state))
	}
	_, err := r.ChangeRollout(t.Context(), "ro", "", store.RolloutChange{}, (*rollout.Rollout).Abort)
	r.must(err)
	r.rounds("after the rollout", "start b 2")
}

// TestLatecomers: a host that came to match while others got a new spec gets the new spec, too.
func TestLatecomers(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "c", "d"} {
		r.label(name, "web")
	}
	r.apply(spec("one", ""))
	r.label("c", "db")
	r.label("b", "web")
	r.carried = nil
	r.rounds("a host comes to match, and another ceases to", "start b 2")

	r.must(r.PutSelections(t.Context(), store.SelectionChange{ // as a rollout does that began before b came
		Namespace: "shop", Entries: []string{"web"}, Now: []store.Selection{{
			Process: web, Selector: "role=web", Spec: spec("two", ""), App: "shop", User: "anna", At: r.now.Add(-time.Hour),
		}}, Members: []store.ObservedKey{{Agent: "key-a", Process: web}, {Agent: "key-d", Process: web}},
	}, store.Revision{At: r.now}, nil, store.AuditRow{}))
	r.rounds("others got a new spec", "restart b 4")

	r.apply(spec("three", ""))
	r.carried = nil
	r.operate(process.Stop, "c")
	r.carried = nil
	r.label("c", "web")
	r.rounds("a host that a person has stopped matches again", "update c 6")
}

// TestListInstead: a file with a list of hosts ends the selection.
func TestListInstead(t *testing.T) {
	r := newRig(t)
	r.label("a", "web")
	r.apply(spec("one", process.LeaveStop))
	r.must(r.PutSelections(t.Context(), store.SelectionChange{Namespace: "shop", Entries: []string{"web"}},
		store.Revision{At: r.now}, nil, store.AuditRow{}))
	r.carried = nil
	r.label("a", "db")
	r.label("b", "web")
	r.rounds("without a selection")
	rows, err := r.UpkeepOn(t.Context(), []string{"key-a", "key-b"})
	r.must(err)
	if slices.ContainsFunc(rows, func(u store.Upkeep) bool { return u.Member != upkeep.Outside }) {
		t.Errorf("members remain: %+v", rows)
	}
}
