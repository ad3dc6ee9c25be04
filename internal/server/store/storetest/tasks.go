//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

func manyTargets(t *testing.T, s store.Store) {
	const n = 1003 // no round number, so that a store which inserts in blocks has a rest
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
			Key: agents[i] + ":a", Asked: agents[i], Op: process.Start, Process: process.ID{Namespace: "ns", Name: "a"},
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
	err := s.CreateTask(t.Context(), &store.Task{ID: "t", Created: epoch, Requests: []store.Request{request(process.Stop, "b", "y")}},
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
	err := s.CreateTask(t.Context(), &store.Task{ID: "t", Created: epoch, Requests: []store.Request{r}}, store.AuditRow{At: epoch})
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
	r.Targets[1] = store.Target{Key: "nobody:a", Asked: "nobody", Outcome: unknown}
	r.Targets[2].Outcome = illegal
	empty := store.Request{
		Op: process.Query, Process: process.ID{Namespace: "n", Name: "q"},
		Targets: []store.Target{{Key: "q", Asked: "q", Outcome: unknown}},
	}
	create(t, s, "t", r, empty)
	got := views(t, s, "t")
	if len(got) != 4 {
		t.Fatalf("got %d keys", len(got))
	}
	for i, want := range []*process.Outcome{nil, unknown, illegal, unknown} {
		same(t, got[i].Key, want, got[i].Outcome)
		if got[i].Done != (want != nil) {
			t.Errorf("%s: done is %v", got[i].Key, got[i].Done)
		}
	}
	same(t, "due", []string{"start x:a"}, brief(lease(t, s, at(time.Hour), 10)))
}

func repeatedKeys(t *testing.T, s store.Store) {
	other := request(process.Start, "a", "x")
	spec := *other.Spec
	spec.Commands.Start = "./start differently"
	other.Spec = &spec
	create(t, s, "t",
		request(process.Start, "a", "x", "x", "y"), // the second x is the first
		request(process.Query, "b", "z"),
		request(process.Start, "a", "x"), // still the first
		other,                            // another
		request(process.Query, "c", "x"),
		func() store.Request { r := request(process.Query, "b", "z"); r.Spec = nil; return r }(), // the same: a query's spec is nothing
		request(process.Start, "a", "x"), // back to the first spec: a third operation
	)
	var keys []string
	for _, v := range views(t, s, "t") {
		keys = append(keys, v.Key)
	}
	same(t, "keys", []string{"x:a", "y:a", "z:b", "x:c"}, keys)

	var ran []string
	for range 3 {
		items := lease(t, s, epoch, 100)
		ran = append(ran, fmt.Sprint(brief(items)))
		for _, it := range items {
			text := it.Spec.Commands.Start
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

func oddTexts(t *testing.T, s store.Store) {
	const odd = "Ω 进程 'a' \"b\" \\ %s ? :x\n\x00\t…"
	r := request(process.Start, odd, "x")
	r.Process.Namespace = odd
	r.Spec.Labels = []byte(`{"n": 9007199254740993}`)
	r.Targets[0].Key, r.Targets[0].Asked = odd, odd
	create(t, s, odd, r)
	it := leaseOne(t, s, epoch)
	same(t, "process", r.Process, it.Process)
	same(t, "task", odd, it.Task)
	same(t, "start", r.Spec.Commands.Start, it.Spec.Commands.Start)
	if got := string(it.Spec.Labels); got != `{"n":9007199254740993}` && got != `{"n": 9007199254740993}` {
		t.Errorf("labels are %s", got)
	}
	finish(t, s, it, process.Outcome{Fault: process.Failed, Text: odd})
	v := views(t, s, odd)[0]
	same(t, "view", []string{odd, odd, odd, odd}, []string{v.Key, v.Asked, v.Process.Namespace, v.Outcome.Text})
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
	mine, theirs, nobodys := request(process.Start, "a", "x"), request(process.Start, "a", "y"), request(process.Start, "a", "z")
	mine.Stored = &process.Spec{Identity: process.Identity{ProcName: "not this"}}
	theirs.Spec, theirs.Stored, nobodys.Spec = nil, theirs.Spec, nil
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
