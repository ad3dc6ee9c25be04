//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

func manyTargets(t *testing.T, s store.Store) {
	const n = 1003 // not a multiple of the block size of a store
	var agents []string
	for i := range n {
		agents = append(agents, fmt.Sprintf("agent-%d", i*7919%n))
	}
	create(t, s, "other", request(process.Stop, "b", "x"))
	create(t, s, "big", request(process.Start, "a", agents...))
	got := views(t, s, "big")
	if len(got) != n {
		t.Fatalf("got %d keys, want %d", len(got), n)
	}
	for i, v := range got {
		same(t, "view", store.ItemView{
			ItemKey: agents[i] + ":a", Spelling: agents[i], Op: process.Start, Process: process.ID{Namespace: "ns", Name: "a"},
			ProcName: "nginx", SetupPath: "/srv/a", FuncID: "f-a", InstanceID: "i-a",
		}, v)
	}
	if n := len(views(t, s, "other")); n != 1 {
		t.Errorf("the other task has %d keys", n)
	}
}

func taskByApp(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x"))
	for _, tt := range []struct {
		id, app string
		found   bool
	}{{"t", "app", true}, {"t", "", true}, {"t", "other", false}, {"u", "app", false}, {"", "", false}} {
		n := 0
		err := s.TaskItems(t.Context(), tt.id, tt.app, func(store.ItemView) error { n++; return nil })
		if tt.found != (err == nil && n == 1) || !tt.found && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("task %q of app %q: %d items, error %v", tt.id, tt.app, n, err)
		}
	}
}

func openTask(t *testing.T, s store.Store) {
	open := func(id string, want bool) {
		t.Helper()
		got, err := s.TaskOpen(t.Context(), id)
		must(t, err)
		if got != want {
			t.Errorf("task %s is open: %v", id, got)
		}
	}
	create(t, s, "t", request(process.Start, "a", "x", "y"))
	create(t, s, "u", request(process.Start, "b", "x"))
	items := lease(t, s, epoch, 10)
	for i, it := range items {
		n, err := s.OpenItems(t.Context())
		must(t, err)
		if n != len(items)-i {
			t.Errorf("%d items are open, want %d", n, len(items)-i)
		}
		open("t", i < 2)
		open("u", true)
		finish(t, s, it, success())
	}
	open("u", false)
	if _, err := s.TaskOpen(t.Context(), "v"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown task: %v", err)
	}
}

func takenID(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x"))
	err := Create(t.Context(), s,
		&store.Task{ID: "t", Created: epoch, Requests: []store.Request{request(process.Stop, "b", "y")}},
		store.AuditRow{At: epoch})
	if err == nil {
		t.Error("a second task has the same id")
	}
	same(t, "due", []string{"start x:a"}, brief(lease(t, s, epoch, 10)))
	rows, err := s.ListAudit(t.Context(), store.AuditFilter{Limit: 10})
	must(t, err)
	if len(rows) != 1 {
		t.Errorf("%d audit rows, want the one of the task that was stored", len(rows))
	}
}

func nobodyToAsk(t *testing.T, s store.Store) {
	r := request(process.Start, "a", "x", "")
	err := Create(t.Context(), s, &store.Task{ID: "t", Created: epoch, Requests: []store.Request{r}},
		store.AuditRow{At: epoch})
	if err == nil {
		t.Error("a target without agent and outcome was taken")
	}
	if err := s.TaskItems(t.Context(), "t", "", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the refused task is there: %v", err)
	}
}

func knownOutcomes(t *testing.T, s store.Store) {
	unknown := &process.Outcome{Fault: process.AgentUnavailable, Text: "agent not found or offline"}
	illegal := &process.Outcome{
		Fault: process.IllegalOp, Text: "no such operation", Hosted: true,
		Status: &process.Status{Known: true, State: "up", Instance: process.Instance{PID: 7, CPU: 1.5}},
	}
	r := request(process.Start, "a", "x", "", "y")
	r.Targets[1] = store.Target{ItemKey: "nobody:a", Spelling: "nobody", Outcome: unknown}
	r.Targets[2].Outcome = illegal
	empty := store.Request{
		Op: process.Query, Process: process.ID{Namespace: "n", Name: "q"},
		Targets: []store.Target{{ItemKey: "q", Spelling: "q", Outcome: unknown}},
	}
	create(t, s, "t", r, empty)
	got := views(t, s, "t")
	if len(got) != 4 {
		t.Fatalf("got %d keys", len(got))
	}
	for i, want := range []*process.Outcome{nil, unknown, illegal, unknown} {
		same(t, got[i].ItemKey, want, got[i].Outcome)
		if got[i].Done != (want != nil) {
			t.Errorf("%s: done is %v", got[i].ItemKey, got[i].Done)
		}
	}
	same(t, "due", []string{"start x:a"}, brief(lease(t, s, at(time.Hour), 10)))
}

func repeatedKeys(t *testing.T, s store.Store) {
	other := request(process.Start, "a", "x")
	spec := *other.Spec
	spec.Start = "./start differently"
	other.Spec = &spec
	create(t, s, "t",
		request(process.Start, "a", "x", "x", "y"), // the second x repeats the first
		request(process.Query, "b", "z"),
		request(process.Start, "a", "x"), // still the first
		other,                            // another
		request(process.Query, "c", "x"),
		// the same: the spec of a query has no effect
		func() store.Request { r := request(process.Query, "b", "z"); r.Spec = nil; return r }(),
		request(process.Start, "a", "x"), // back to the first spec: a third operation
	)
	var keys []string
	for _, v := range views(t, s, "t") {
		keys = append(keys, v.ItemKey)
	}
	same(t, "keys", []string{"x:a", "y:a", "z:b", "x:c"}, keys)

	var ran []string
	for range 3 {
		items := lease(t, s, epoch, 100)
		ran = append(ran, fmt.Sprint(brief(items)))
		for _, it := range items {
			text := it.Spec.Start
			finish(t, s, it, process.Outcome{Text: text})
		}
	}
	same(t, "runs", []string{"[start x:a start y:a query z:b query x:c]", "[start x:a]", "[start x:a]"}, ran)
	if n := len(lease(t, s, at(time.Hour), 100)); n != 0 {
		t.Errorf("%d more items are due", n)
	}
	if v := views(t, s, "t")[0]; !v.Done || v.Outcome.Text != "./start a" {
		t.Errorf("the last of a key is not shown: %+v", v.Outcome)
	}

	create(t, s, "u", request(process.Start, "d", "w"), request(process.Stop, "d", "w"))
	finish(t, s, leaseOne(t, s, epoch), success())
	if v := views(t, s, "u"); len(v) != 1 || v[0].Op != process.Stop || v[0].Done {
		t.Errorf("while the second of a key runs: %+v", v)
	}
}

// twins are one process of one agent in several spellings. An operation on it is executed once, and each key shows it.
func twins(t *testing.T, s store.Store) {
	spelt := func(r store.Request, keys ...string) store.Request {
		r.Targets = nil
		for _, key := range keys {
			r.Targets = append(r.Targets, store.Target{ItemKey: key, Spelling: key, Agent: "x"})
		}
		return r
	}
	restart := request(process.Restart, "a")
	create(t, s, "t", spelt(restart, "id", "ip", "id"), request(process.Restart, "a", "y"), spelt(restart, "ip"))
	items := lease(t, s, epoch, 100)
	same(t, "carried out", []string{"restart x:a", "restart y:a"}, brief(items))
	if n, err := s.OpenItems(t.Context()); err != nil || n != 3 {
		t.Errorf("%d items are open; error %v", n, err)
	}
	waiting, err := s.ListOpenItems(t.Context(), store.OpenItemFilter{}, 10)
	if must(t, err); len(waiting) != 2 {
		t.Errorf("%d operations wait, want 2", len(waiting))
	}
	must(t, s.Begin(t.Context(), "x", map[string]time.Time{items[0].ID: at(2 * time.Hour)}))
	overdue, err := s.Overdue(t.Context(), at(time.Hour), 100)
	must(t, err)
	same(t, "overdue while it is carried out", []string{"restart y:a"}, brief(overdue))

	outcome := process.Outcome{
		Fault: process.Failed, Text: "no", Hosted: true,
		Status: &process.Status{Known: true, State: "up"},
	}
	same(t, "tasks", []string{"t"}, finish(t, s, items[0], outcome))
	var keys []string
	for _, v := range views(t, s, "t") {
		keys = append(keys, v.ItemKey)
		if v.Done != (v.ItemKey != "y:a") || v.Done && (v.Spelling != v.ItemKey || cmp.Diff(&outcome, v.Outcome) != "") {
			t.Errorf("%s: %+v", v.ItemKey, v.Outcome)
		}
	}
	same(t, "keys", []string{"id", "ip", "y:a"}, keys)
	finish(t, s, items[1], success())

	// Different operations run one after another, whatever the spelling; start, stop, start is three operations.
	start, stop := request(process.Start, "a"), request(process.Stop, "a")
	create(t, s, "u", spelt(start, "id"), spelt(stop, "ip", "id"), spelt(start, "ip"), spelt(start, "id"))
	var ran []string
	for range 3 {
		it := leaseOne(t, s, at(time.Hour))
		ran = append(ran, brief([]store.Item{it})...)
		finish(t, s, it, process.Outcome{Text: fmt.Sprint(len(ran))})
	}
	same(t, "runs", []string{"start x:a", "stop x:a", "start x:a"}, ran)
	for _, v := range views(t, s, "u") {
		if !v.Done || v.Outcome.Text != "3" {
			t.Errorf("%s shows %+v", v.ItemKey, v.Outcome)
		}
	}
	if open, err := s.TaskOpen(t.Context(), "u"); open || err != nil || len(lease(t, s, at(time.Hour), 100)) > 0 {
		t.Errorf("it is open: %v; error %v", open, err)
	}

	// An outcome that the server decides ends both.
	create(t, s, "v", spelt(restart, "id", "ip"))
	items = lease(t, s, at(time.Hour), 100)
	_, err = s.Conclude(t.Context(), []store.DecidedOutcome{{Item: items[0], Outcome: outcome}})
	must(t, err)
	if open, err := s.TaskOpen(t.Context(), "v"); open || err != nil {
		t.Errorf("it is open: %v; error %v", open, err)
	}
}

func repeats(t *testing.T, s store.Store) {
	put := func(r store.Repeat) {
		t.Helper()
		must(t, s.PutRepeat(t.Context(), r, r.At.Add(-time.Minute)))
	}
	find := func(of string, want store.Repeat) {
		t.Helper()
		got, err := s.FindRepeat(t.Context(), of)
		if want.Of == "" != errors.Is(err, store.ErrNotFound) || want.Of != "" && err != nil {
			t.Fatal(err)
		}
		same(t, of, want, got)
	}
	a, b := store.Repeat{Of: "a", What: "x", Task: "t", At: epoch},
		store.Repeat{Of: "b", What: "y", Task: "u", At: at(time.Second)}
	find("a", store.Repeat{})
	put(a)
	put(b)
	find("a", a)
	find("b", b)
	a.What, a.At = "z", at(2*time.Second)
	put(a)
	find("a", a)
	must(t, s.DropRepeat(t.Context(), "a"))
	must(t, s.DropRepeat(t.Context(), "a"))
	find("a", store.Repeat{})
	a.At = at(2 * time.Minute)
	put(a) // and b is too old
	find("b", store.Repeat{})
}

func oddTexts(t *testing.T, s store.Store) {
	const odd = "Ω 进程 'a' \"b\" \\ %s ? :x\n\x00\t…"
	r := request(process.Start, odd, "x")
	r.Process.Namespace = odd
	r.Spec.SetLabels([]byte(`{"n": 9007199254740993}`))
	r.Targets[0].ItemKey, r.Targets[0].Spelling = odd, odd
	create(t, s, odd, r)
	it := leaseOne(t, s, epoch)
	same(t, "process", r.Process, it.Process)
	same(t, "task", odd, it.Task)
	same(t, "start", r.Spec.Start, it.Spec.Start)
	if got := string(it.Spec.LabelsJSON()); got != `{"n":9007199254740993}` {
		t.Errorf("labels are %s", got)
	}
	if text, err := json.Marshal(it.Spec); err != nil || it.SpecSize < len(text) {
		t.Errorf("the spec is said to have %d bytes, and has %d (%v)", it.SpecSize, len(text), err)
	}
	finish(t, s, it, process.Outcome{Fault: process.Failed, Text: odd})
	v := views(t, s, odd)[0]
	same(t, "view", []string{odd, odd, odd, odd}, []string{v.ItemKey, v.Spelling, v.Process.Namespace, v.Outcome.Text})
}

func viewOfAgent(t *testing.T, s store.Store) {
	must(t, s.PutAgent(t.Context(), store.Agent{Key: "x", Cloud: 3, IP: "10.0.0.1", Created: epoch}))
	must(t, s.PutAgent(t.Context(), store.Agent{Key: "y", Cloud: 0, IP: "fe80::1", ID: "0200abc", Created: epoch}))
	create(t, s, "t", request(process.Start, "a", "x", "y", "z"))
	type host struct {
		Cloud  int
		IP, ID string
	}
	var got []host
	for _, v := range views(t, s, "t") {
		got = append(got, host{v.Cloud, v.IP, v.AgentID})
	}
	same(t, "hosts", []host{{3, "10.0.0.1", "3:10.0.0.1"}, {0, "fe80::1", "0200abc"}, {}}, got)
}

func storedSpecShown(t *testing.T, s store.Store) {
	mine, theirs, nobodys := request(process.Start, "a", "x"), request(process.Start, "a", "y"),
		request(process.Start, "a", "z")
	mine.ReportedSpec = &process.Spec{ProcessName: "not this"}
	theirs.Spec, theirs.ReportedSpec, nobodys.Spec = nil, theirs.Spec, nil
	create(t, s, "t", mine, theirs, nobodys)
	type shown struct{ ProcName, SetupPath, FuncID, InstanceID string }
	var got []shown
	for _, v := range views(t, s, "t") {
		got = append(got, shown{v.ProcName, v.SetupPath, v.FuncID, v.InstanceID})
	}
	nginx := shown{"nginx", "/srv/a", "f-a", "i-a"}
	same(t, "what is shown", []shown{nginx, nginx, {}}, got)
	for _, it := range lease(t, s, epoch, 10) {
		if (it.Spec == nil) != (it.Agent != "x") {
			t.Errorf("agent %s is sent spec %+v", it.Agent, it.Spec)
		}
	}
}

func readerStops(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x", "y", "z"))
	enough := errors.New("enough")
	for range 20 { // more often than a store has connections
		n := 0
		err := s.TaskItems(t.Context(), "t", "", func(store.ItemView) error { n++; return enough })
		if !errors.Is(err, enough) || n != 1 {
			t.Fatalf("%d items, error %v", n, err)
		}
	}
}

// newRollout is a rollout of a restart over two hosts.
func newRollout(id string, names ...string) *store.Rollout {
	var steps []store.RolloutStep
	var places []int
	for i, name := range names {
		steps = append(steps, store.RolloutStep{Op: process.Restart, Process: process.ID{Namespace: "shop", Name: name}})
		places = append(places, i)
	}
	plan := rollout.Plan{Judged: true, Breadth: 3, RolloutPlan: v1.RolloutPlan{
		Batch: v1.HostCount{Percent: 10}, Canary: 1, Bake: v1.Duration(time.Minute), Order: "zone",
	}}
	return &store.Rollout{
		ID: id, App: "app", User: "anna", RequestID: "r", Created: epoch, Op: process.Restart, Steps: steps,
		HostTimeout: 5 * time.Second, Selector: "role=web", Total: 2,
		Undoes: "ro-0", Schedule: "nightly", Through: "apply", Message: "why",
		Rollout: rollout.New(plan, at(time.Hour), []rollout.Host{
			{Agent: "x", Name: "web-1", Steps: places}, {Agent: "y", Name: "0:10.0.0.2", Steps: places[:1]},
		}),
	}
}

func createRollout(ctx context.Context, s store.Store, r *store.Rollout, row store.AuditRow) error {
	return s.CreateRollouts(ctx, []*store.Rollout{r}, row)
}

func rollouts(t *testing.T, s store.Store) {
	for i, id := range []string{"ro-1", "ro-2", "ro-3"} {
		must(t, createRollout(t.Context(), s, newRollout(id, "a"+id, "b"+id), store.AuditRow{At: at(time.Duration(i))}))
	}
	want := newRollout("ro-2", "aro-2", "bro-2")
	want.Number = 2
	got, err := s.GetRollout(t.Context(), "ro-2", "app")
	must(t, err)
	same(t, "rollout", want, got)
	if _, err := s.GetRollout(t.Context(), "ro-2", "another"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another app gets %v", err)
	}
	if err := createRollout(t.Context(), s, newRollout("ro-2", "c"), store.AuditRow{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken id gives %v", err)
	}
	list, err := s.ListRollouts(t.Context(), store.RolloutFilter{
		Sight: store.Sight{App: "app"}, State: rollout.Scheduled,
	}, 3, 10)
	must(t, err)
	for n, f := range map[int][]store.RolloutFilter{
		3: {{Sight: store.Sight{App: "another", Within: []string{"none", "sh*"}}}, {Namespace: "s?op"}, {Active: true}, {Agents: []string{"none", "y"}}},
		0: {{Sight: store.Sight{App: "another", Within: []string{"none"}}}, {Namespace: "none"}, {Agents: []string{"none"}}, {Agents: []string{}}, {Sight: store.Sight{App: "another"}}},
	} {
		for _, f := range f {
			found, err := s.ListRollouts(t.Context(), f, 0, 10)
			must(t, err)
			same(t, fmt.Sprintf("rollouts of %+v", f), n, len(found))
		}
	}
	if len(list) != 2 || list[0].ID != "ro-2" || list[1].ID != "ro-1" || len(list[0].Processes()) != 2 || list[0].Hosts != nil ||
		list[0].States[rollout.Waiting] != 2 {
		t.Errorf("listed are %+v", list)
	}
	rows, err := s.ListAudit(t.Context(), store.AuditFilter{Limit: 10})
	must(t, err)
	same(t, "audit rows", 3, len(rows))
}

// rolloutsUndone: a paused rollout whose plan may undo it is open, and ends with its undo, or not at all.
func rolloutsUndone(t *testing.T, s store.Store) {
	pause := func(r *rollout.Rollout) error {
		r.State, r.Reason, r.Hosts[0].State = rollout.Paused, "one has failed", rollout.Failed
		return nil
	}
	for _, undo := range []bool{true, false} { // a host has failed
		r := newRollout(fmt.Sprint("ro-", undo), fmt.Sprint("of-", undo))
		r.Plan.UndoOnFailure = undo
		must(t, createRollout(t.Context(), s, r, store.AuditRow{}))
		_, err := s.ChangeRollout(t.Context(), r.ID, "", store.RolloutChange{At: at(0)}, pause)
		must(t, err)
	}
	open, _, err := s.OpenRollouts(t.Context(), at(0))
	must(t, err)
	same(t, "open", []string{"ro-true"}, open)

	refused := errors.New("it has gone on")
	undo := newRollout("ro-undo", "of-true")
	undo.Undoes = "ro-true"
	by := store.RolloutChange{At: at(time.Minute), By: process.Actor{Kind: process.ActorPolicy}}
	undo.Ends = &store.RolloutEnd{RolloutChange: by, Change: func(*rollout.Rollout) error { return refused }}
	if err := createRollout(t.Context(), s, undo, store.AuditRow{}); !errors.Is(err, refused) {
		t.Errorf("a refused end gives %v", err)
	}
	if _, err := s.GetRollout(t.Context(), "ro-undo", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after a refused end there is an undo: %v", err)
	}
	undo.Ends.Change = func(r *rollout.Rollout) error {
		r.State, r.Reason = rollout.Aborted, "undone"
		return nil
	}
	must(t, createRollout(t.Context(), s, undo, store.AuditRow{At: at(time.Minute)}))
	former, err := s.GetRollout(t.Context(), "ro-true", "")
	must(t, err)
	same(t, "the former", rollout.Aborted, former.State)
	told, _, err := s.EventsAfter(t.Context(), 0, store.EventFilter{}, 10)
	must(t, err)
	if n := len(told); n == 0 || told[n-1].Event.Kind != process.EventRolloutAborted || told[n-1].Event.Actor != by.By {
		t.Errorf("told is %+v", told)
	}
}

func rolloutsChanged(t *testing.T, s store.Store) {
	must(t, createRollout(t.Context(), s, newRollout("ro-1", "a"), store.AuditRow{}))
	for now, want := range map[time.Duration]int{time.Hour - 1: 0, time.Hour: 1} { // it is scheduled
		open, next, err := s.OpenRollouts(t.Context(), at(now))
		must(t, err)
		if want == 0 && !next.Equal(at(time.Hour)) || want == 1 && !next.IsZero() {
			t.Errorf("the next one is to begin at %s", next)
		}
		same(t, "open of a scheduled rollout", want, len(open))
	}
	refused := errors.New("no")
	if _, err := s.ChangeRollout(t.Context(), "ro-1", "", store.RolloutChange{}, func(r *rollout.Rollout) error {
		r.State = rollout.Done
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("an error of the change gives %v", err)
	}
	var want rollout.Rollout
	byBob := store.RolloutChange{At: at(time.Hour), By: process.Actor{Kind: process.ActorCaller, User: "bob"}}
	changed, err := s.ChangeRollout(t.Context(), "ro-1", "app", byBob, func(r *rollout.Rollout) error {
		*r = rollout.Step(*r, nil, at(time.Hour))
		r.Approvals = rollout.Approvals{Canaries: true, By: []string{"bob"}}
		r.Hosts[1].State, r.Hosts[1].Cause, r.Hosts[1].Text, r.Forgiven = rollout.Failed, "failed", "because", 7
		r.State, r.Reason, r.Settled = rollout.Aborted, "reason", at(time.Minute)
		want = *r
		return nil
	})
	must(t, err)
	same(t, "changed", want, changed.Rollout)
	told, _, err := s.EventsAfter(t.Context(), 0, store.EventFilter{}, 10)
	must(t, err)
	if len(told) != 1 || told[0].Agent != want.Hosts[0].Agent || told[0].Event.Kind != process.EventRolloutAborted ||
		told[0].Event.Cause.Text != "reason; rollout ro-1" || told[0].Event.Process.Name != "a" ||
		told[0].Event.Actor != byBob.By || told[0].Event.At != byBob.At.UnixMilli() {
		t.Errorf("told is %+v", told)
	}
	got, err := s.GetRollout(t.Context(), "ro-1", "")
	must(t, err)
	same(t, "stored", want, got.Rollout)
	_, err = s.ChangeRollout(t.Context(), "ro-1", "another", store.RolloutChange{}, nil)
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another app gets %v", err)
	}
	open, _, err := s.OpenRollouts(t.Context(), at(0)) // its first host is begun
	must(t, err)
	same(t, "open", []string{"ro-1"}, open)
	_, err = s.ChangeRollout(t.Context(), "ro-1", "", store.RolloutChange{}, func(r *rollout.Rollout) error {
		r.Hosts[0].State = rollout.Skipped
		return nil
	})
	must(t, err)
	open, _, err = s.OpenRollouts(t.Context(), at(0))
	must(t, err)
	same(t, "open", 0, len(open))
	n, err := s.PruneRollouts(t.Context(), at(time.Hour), 10)
	must(t, err)
	same(t, "pruned", 1, n)
	if _, err := s.GetRollout(t.Context(), "ro-1", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a removed rollout gives %v", err)
	}
}

// rolloutSteps: the steps keep their specs, and a rollout that depends on a revision is refused after another one.
func rolloutSteps(t *testing.T, s store.Store) {
	former, spec := &process.Spec{User: "a"}, &process.Spec{User: "b"}
	r := newRollout("ro-1", "a", "b", "c")
	r.Op = store.OpApply
	r.Steps[0].Former, r.Steps[0].Spec = former, spec
	r.Steps[1].Spec = spec
	r.Steps[2].Former, r.Steps[2].Removes = former, true
	r.ExpectedRevision = &store.ExpectedRevision{Namespace: "shop"}
	must(t, createRollout(t.Context(), s, r, store.AuditRow{}))
	got, err := s.RolloutSteps(t.Context(), "ro-1")
	must(t, err)
	same(t, "steps", r.Steps, got)
	if got[0].Spec != got[1].Spec || got[0].Former != got[2].Former {
		t.Error("equal specs are different pointers")
	}
	without, err := s.GetRollout(t.Context(), "ro-1", "")
	must(t, err)
	if st := without.Steps[2]; st.Spec != nil || st.Former != nil || !st.Removes || st.Process.Name != "c" {
		t.Errorf("the rollout has the step %+v", st)
	}
	r = newRollout("ro-2", "d")
	r.ExpectedRevision = &store.ExpectedRevision{Namespace: "shop", Number: 1}
	if err := createRollout(t.Context(), s, r, store.AuditRow{}); !errors.Is(err, store.ErrRevised) {
		t.Errorf("a rollout for an earlier revision gives %v", err)
	}
	none, err := s.RolloutSteps(t.Context(), "ro-2")
	must(t, err)
	same(t, "steps of a rejected rollout", 0, len(none))
}

func rolloutsApart(t *testing.T, s store.Store) {
	must(t, createRollout(t.Context(), s, newRollout("ro-1", "a", "b"), store.AuditRow{}))
	busy := func(err error, id, name string) {
		t.Helper()
		e, ok := errors.AsType[*store.RolloutBusyError](err)
		if !ok || e.ID != id || e.Process.Name != name || e.State != rollout.Scheduled {
			t.Errorf("the rejection is %v, want one about %s of %s", err, name, id)
		}
	}
	busy(createRollout(t.Context(), s, newRollout("ro-2", "b", "c"), store.AuditRow{}), "ro-1", "b")
	task := func(id, name string, exclusive bool) error {
		return Create(t.Context(), s, &store.Task{
			ID: id, App: "app", Created: time.Unix(1_800_000_000, 0), Exclusive: exclusive,
			Requests: []store.Request{{
				Op: process.Restart, Process: process.ID{Namespace: "shop", Name: name},
				Targets: []store.Target{{ItemKey: "key", Spelling: "host", Agent: "agent"}},
			}},
		}, store.AuditRow{})
	}
	busy(task("op-1", "b", true), "ro-1", "b")
	must(t, task("op-1", "b", false))
	must(t, task("op-2", "z", true))
	end := func(r *rollout.Rollout) error { r.State = rollout.Done; return nil }
	again := func(r *rollout.Rollout) error { r.State = rollout.Running; return nil }
	_, err := s.ChangeRollout(t.Context(), "ro-1", "", store.RolloutChange{}, end)
	must(t, err)
	must(t, createRollout(t.Context(), s, newRollout("ro-2", "b", "c"), store.AuditRow{}))
	_, err = s.ChangeRollout(t.Context(), "ro-1", "", store.RolloutChange{}, again)
	busy(err, "ro-2", "b")
	// Two upgrades may go on at the same time, but for different agents.
	upgrade := func(id string, agents ...string) *store.Rollout {
		r := newRollout(id, "any")
		r.Op, r.Steps = "upgrade:1.4.0", []store.RolloutStep{{Op: "upgrade:1.4.0", Process: process.AgentID()}}
		var hosts []rollout.Host
		for _, a := range agents {
			hosts = append(hosts, rollout.Host{Agent: a, Name: "host-" + a, Steps: []int{0}})
		}
		r.Rollout = rollout.New(r.Plan, time.Time{}, hosts)
		return r
	}
	shares := func(err error, id, host string) {
		t.Helper()
		e, ok := errors.AsType[*store.RolloutBusyError](err)
		if !ok || e.ID != id || e.Process != process.AgentID() || e.Host != host {
			t.Errorf("the rejection is %v, want one about %s on %s", err, id, host)
		}
	}
	must(t, createRollout(t.Context(), s, upgrade("ro-u1", "a", "b"), store.AuditRow{}))
	must(t, createRollout(t.Context(), s, upgrade("ro-u2", "c"), store.AuditRow{}))
	shares(createRollout(t.Context(), s, upgrade("ro-u3", "d", "b"), store.AuditRow{}), "ro-u1", "host-b")
	_, err = s.ChangeRollout(t.Context(), "ro-u1", "", store.RolloutChange{}, end)
	must(t, err)
	must(t, createRollout(t.Context(), s, upgrade("ro-u3", "d", "b"), store.AuditRow{}))
	_, err = s.ChangeRollout(t.Context(), "ro-u1", "", store.RolloutChange{}, again)
	shares(err, "ro-u3", "host-b")
	for agents, want := range map[string]string{"a c": "ro-u2", "b c": "ro-u2 ro-u3", "a": ""} {
		var ids []string
		list, err := store.Upgrading(t.Context(), s, strings.Fields(agents))
		must(t, err)
		for i := range list {
			ids = append(ids, list[i].ID)
		}
		same(t, "upgrades of "+agents, want, strings.Join(ids, " "))
	}
	// Rollouts that come together begin all or none.
	busy(s.CreateRollouts(t.Context(), []*store.Rollout{newRollout("ro-3", "e"), newRollout("ro-4", "c")},
		store.AuditRow{}), "ro-2", "c")
	if _, err := s.GetRollout(t.Context(), "ro-3", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("beside a rejected rollout another one begins: %v", err)
	}
	// Of many at once one begins.
	results := make(chan error)
	for i := range 8 {
		go func() {
			results <- createRollout(t.Context(), s, newRollout("ro-many-"+string(rune('a'+i)), "d"), store.AuditRow{})
		}()
	}
	begun := 0
	for range 8 {
		if err := <-results; err == nil {
			begun++
		}
	}
	same(t, "begun at once", 1, begun)
}
