package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// listed walks a filtered list in pages and returns "namespace/name@agent" of its rows.
func listed(t *testing.T, s store.Store, f store.ObservedFilter, limit int) []string {
	t.Helper()
	var names []string
	var after store.ObservedKey
	for {
		rows, more, err := s.ListObserved(t.Context(), f, after, limit)
		must(t, err)
		for _, o := range rows {
			names = append(names, fmt.Sprintf("%s@%s", o.Process, o.Agent))
			if (o.Spec != nil) != f.Spec {
				t.Errorf("%s: spec %v with Spec %v", o.Process, o.Spec, f.Spec)
			}
			after = store.ObservedKey{Agent: o.Agent, Process: o.Process}
		}
		if !more {
			return names
		}
	}
}

func listObserved(t *testing.T, s store.Store) {
	rows := []store.Observed{
		observed("x", "ns", "web", 1), observed("y", "ns", "web", 2), observed("x", "ns", "web2", 3),
		observed("x", "ns", "w[e]b", 4), observed("x", "other", "web", 5), observed("y", "*", "a?", 6),
	}
	rows[1].Status.State = "stopped"
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, rows, nil))
	all := []string{"*/a?@y", "ns/w[e]b@x", "ns/web@x", "ns/web@y", "ns/web2@x", "other/web@x"}
	for limit := 1; limit <= len(all)+1; limit++ {
		same(t, fmt.Sprintf("pages of %d", limit), all, listed(t, s, store.ObservedFilter{}, limit))
	}
	for _, tt := range []struct {
		name   string
		filter store.ObservedFilter
		want   []string
	}{
		{"namespace", store.ObservedFilter{Namespace: "ns"}, all[1:5]},
		{"namespace pattern", store.ObservedFilter{Namespace: "*th*"}, all[5:]},
		{"name", store.ObservedFilter{Name: "web"}, []string{all[2], all[3], all[5]}},
		{"name pattern", store.ObservedFilter{Name: "web?"}, all[4:5]},
		{"a bracket is one", store.ObservedFilter{Name: "w[e]*"}, all[1:2]},
		{"to the letter", store.ObservedFilter{Process: process.ID{Namespace: "*", Name: "a?"}}, all[:1]},
		{"agents", store.ObservedFilter{Agents: []string{"y", "nobody"}}, []string{all[0], all[3]}},
		{"no agents", store.ObservedFilter{Agents: []string{}}, nil},
		{"states", store.ObservedFilter{States: []string{"stopped", "backoff"}}, all[3:4]},
		{"all of it", store.ObservedFilter{
			Namespace: "ns", Name: "w*", Agents: []string{"x"}, States: []string{"up"},
			Spec: true,
		}, []string{all[1], all[2], all[4]}},
		{"none", store.ObservedFilter{Namespace: "none"}, nil},
		{"within", store.ObservedFilter{Within: []string{"o*r", "?"}}, []string{all[0], all[5]}},
		{
			"within, of those named",
			store.ObservedFilter{Namespace: "*s*", Within: []string{"other", "ns"}, Name: "web"},
			all[2:4],
		},
		{"within nothing", store.ObservedFilter{Within: []string{}}, nil},
	} {
		same(t, tt.name, tt.want, listed(t, s, tt.filter, 2))
	}
	large := []store.Observed{
		observed("x", "large", "a", 7), observed("x", "large", "b", 8),
		observed("x", "large", "c", 9),
	}
	for i := range large {
		large[i].Status.Message = strings.Repeat("x", 5<<20)
	}
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, large, nil))
	page, more, err := s.ListObserved(t.Context(), store.ObservedFilter{Namespace: "large"}, store.ObservedKey{}, 100)
	if must(t, err); len(page) != 2 || !more {
		t.Errorf("of three large rows %d were read at once, more: %v", len(page), more)
	}
	paged, total, err := s.PageObserved(t.Context(), "large", 0, 100)
	if must(t, err); len(paged) != 2 || total != 3 {
		t.Errorf("of %d large rows of a namespace %d were read at once", total, len(paged))
	}
	same(t, "large rows", []string{"large/a@x", "large/b@x", "large/c@x"},
		listed(t, s, store.ObservedFilter{Namespace: "large"}, 100))
}

func listTasks(t *testing.T, s store.Store) {
	ctx := t.Context()
	create(t, s, "first", request(process.StartOp(process.TakeOver), "a", "x", "y"), request(process.Stop, "b", "x"))
	refused := request(process.Kill, "c", "z")
	refused.Targets[0].Outcome = &process.Outcome{Fault: process.Failed, Text: "no"}
	must(t,
		Create(ctx, s, &store.Task{
			ID: "second", App: "other", User: "u", RequestID: "r", Created: at(time.Second),
			Requests: []store.Request{refused},
		},
			store.AuditRow{At: at(time.Second)}))
	leased, err := s.LeaseItems(ctx, at(time.Second), at(time.Minute), 10)
	must(t, err)
	var item string
	for _, it := range leased {
		if it.Agent == "y" {
			item = it.ID
		}
	}
	_, err = s.Finish(ctx, Reported("y", map[string]process.Outcome{item: {Text: process.Success}}))
	must(t, err)

	second := store.TaskSummary{
		ID: "second", App: "other", User: "u", RequestID: "r", Created: at(time.Second), Op: process.Kill,
		Process: process.ID{Namespace: "ns", Name: "c"}, Requests: 1, Keys: 1, Failed: 1,
	}
	got, err := s.GetTask(ctx, "second", "other")
	must(t, err)
	second.Number = got.Number
	same(t, "a task", second, got)
	got, err = s.GetTask(ctx, "first", "")
	must(t, err)
	same(t, "counts", [4]int{2, 3, 2, 0}, [4]int{got.Requests, got.Keys, got.Open, got.Failed})
	same(t, "the first request", "start:take-over ns/a", string(got.Op)+" "+got.Process.String())
	for _, ask := range [][2]string{{"none", ""}, {"second", "app"}} {
		if _, err := s.GetTask(ctx, ask[0], ask[1]); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("task %s of app %q: %v", ask[0], ask[1], err)
		}
	}
	first, err := s.GetTask(ctx, "first", "")
	must(t, err)
	for agents, want := range map[string]bool{"y": true, "z x": true, "z": false, "": false} {
		on, err := s.TaskOn(ctx, first.Number, strings.Fields(agents))
		must(t, err)
		same(t, "the first task on "+agents, want, on)
	}
	yes, no := true, false
	for _, tt := range []struct {
		name   string
		filter store.TaskFilter
		want   []string
	}{
		{"all", store.TaskFilter{}, []string{"second", "first"}},
		{"app", store.TaskFilter{App: "other"}, []string{"second"}},
		{"done", store.TaskFilter{Done: &yes}, []string{"second"}},
		{"open", store.TaskFilter{Done: &no}, []string{"first"}},
		{"none", store.TaskFilter{App: "other", Done: &no}, nil},
		{"user", store.TaskFilter{User: "u"}, []string{"second"}},
		{"an operation of a later request", store.TaskFilter{Op: process.Stop, Namespace: "n*"}, []string{"first"}},
		{"an operation with its argument", store.TaskFilter{Op: process.Start}, []string{"first"}},
		{"a part of a name", store.TaskFilter{Op: "star"}, nil},
		{"an operation elsewhere", store.TaskFilter{Op: process.Stop, Namespace: "other"}, nil},
		{"namespace", store.TaskFilter{Namespace: "ns"}, []string{"second", "first"}},
		{"since", store.TaskFilter{Since: at(0)}, []string{"second"}},
		{"until", store.TaskFilter{Until: at(0)}, []string{"first"}},
		{"failed", store.TaskFilter{Failed: &yes}, []string{"second"}},
		{"not failed", store.TaskFilter{Failed: &no}, []string{"first"}},
		{"beside a rollout", store.TaskFilter{Beside: &store.Beside{
			Rollout: "ro-1", Processes: []process.ID{{Namespace: "ns", Name: "b"}, {Namespace: "ns", Name: "c"}}, Agents: []string{"x", "y"},
		}}, []string{"first"}},
		{"beside the rollout of a task", store.TaskFilter{Beside: &store.Beside{
			Rollout: "fir", Processes: []process.ID{{Namespace: "ns", Name: "a"}}, Agents: []string{"x", "y"},
		}}, []string{"first"}},
		{"on other hosts", store.TaskFilter{Beside: &store.Beside{
			Processes: []process.ID{{Namespace: "ns", Name: "a"}}, Agents: []string{"z"},
		}}, nil},
		{"sight of an app", store.TaskFilter{Sight: store.Sight{App: "other"}}, []string{"second"}},
		{"of namespaces", store.TaskFilter{Sight: store.Sight{App: "third", Within: []string{"n?"}}}, []string{"second", "first"}},
		{"of other ones", store.TaskFilter{Sight: store.Sight{App: "other", Within: []string{"n"}}}, []string{"second"}},
		{"of none", store.TaskFilter{Sight: store.Sight{App: "third", Within: []string{}}}, nil},
	} {
		same(t, tt.name, tt.want, listedTasks(ctx, t, s, tt.filter))
	}
}

// tasksOfManyNamespaces: a task that has processes of several namespaces is seen by those who see all of them.
func tasksOfManyNamespaces(t *testing.T, s store.Store) {
	ctx := t.Context()
	elsewhere := request(process.Start, "a", "x")
	elsewhere.Process.Namespace = "other"
	create(t, s, "one", request(process.Start, "a", "x"))
	create(t, s, "both", request(process.Start, "b", "x"), elsewhere)
	for want, within := range map[string][]string{"[one]": {"ns"}, "[both one]": {"o*", "ns"}, "[]": {"other"}} {
		got := listedTasks(ctx, t, s, store.TaskFilter{Sight: store.Sight{App: "another", Within: within}})
		same(t, strings.Join(within, ","), want, fmt.Sprint(got))
	}
}

func listWaiting(t *testing.T, s store.Store) {
	ctx := t.Context()
	create(t, s, "first", request(process.Start, "a", "x", "y"), request(process.Query, "a", "x"))
	must(t, Create(ctx, s, &store.Task{
		ID: "second", App: "other", User: "u", Created: at(time.Minute),
		Requests: []store.Request{request(process.Stop, "b", "x")},
	}, store.AuditRow{At: at(time.Minute)}))
	leased, err := s.LeaseItems(ctx, at(time.Minute), at(time.Hour), 10)
	must(t, err)
	for _, it := range leased {
		if it.Task == "first" && it.Agent == "x" {
			must(t, s.Begin(ctx, "x", map[string]time.Time{it.ID: at(time.Hour)}))
		}
	}
	told := func(f store.OpenItemFilter, limit int) (all []string) {
		waiting, err := s.ListOpenItems(ctx, f, limit)
		must(t, err)
		for _, w := range waiting {
			all = append(all, fmt.Sprintf("%s %s/%s %s %s@%s %s", w.Task, w.App, w.User, w.Op, w.Process, w.Agent,
				w.State))
		}
		return all
	}
	first, second := "first app/ start ns/a@", "second other/u stop ns/b@x pending"
	all := []string{first + "x begun", first + "y pending", second}
	same(t, "all", all, told(store.OpenItemFilter{}, 10))
	same(t, "some", all[:1], told(store.OpenItemFilter{}, 1))
	same(t, "of a process", all[2:], told(store.OpenItemFilter{Process: process.ID{Namespace: "ns", Name: "b"}}, 10))
	same(t, "long since", all[:2], told(store.OpenItemFilter{Before: at(time.Minute)}, 10))
	waiting, err := s.ListOpenItems(ctx, store.OpenItemFilter{}, 10)
	must(t, err)
	same(t, "since when", at(time.Minute), waiting[2].Created)
	for _, it := range leased {
		_, err := s.Finish(ctx, Reported("", map[string]process.Outcome{it.ID: {Text: process.Success}}))
		must(t, err)
	}
	same(t, "done", []string(nil), told(store.OpenItemFilter{Before: at(time.Minute)}, 10))
}

// listedTasks walks a list of tasks one by one.
// listCopies: with Copies a name also selects NAME@NUMBER, and no other name.
func listCopies(t *testing.T, s store.Store) {
	copies := []store.Observed{
		observed("x", "many", "api", 1), observed("x", "many", "api@1", 2), observed("y", "many", "api@10", 3),
		observed("x", "many", "api@x", 4), observed("x", "many", "api-b", 5), observed("x", "many", "api2", 6),
		observed("x", "many", "apia@1", 7), observed("x", "many", "api@1@2", 8), observed("x", "many", "API@1", 9),
	}
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, copies, nil))
	three := []string{"many/api@x", "many/api@1@x", "many/api@10@y"}
	for _, tt := range []struct {
		name   string
		filter store.ObservedFilter
		want   []string
	}{
		{"a name with copies", store.ObservedFilter{Namespace: "many", Name: "api", Copies: true}, three},
		{"a name alone", store.ObservedFilter{Namespace: "many", Name: "api"}, three[:1]},
		{"one copy", store.ObservedFilter{Namespace: "many", Name: "api@1", Copies: true}, []string{three[1], "many/api@1@2@x"}},
		{"a pattern with copies", store.ObservedFilter{Namespace: "m*", Name: "a?i", Copies: true}, three},
		{"a pattern alone", store.ObservedFilter{Namespace: "m*", Name: "a?i"}, three[:1]},
		{
			"a process with copies",
			store.ObservedFilter{Process: process.ID{Namespace: "many", Name: "api"}, Copies: true},
			three,
		},
		{"a process alone", store.ObservedFilter{Process: process.ID{Namespace: "many", Name: "api"}}, three[:1]},
	} {
		same(t, tt.name, tt.want, listed(t, s, tt.filter, 2))
	}
	putEvents(
		t, s, "x", 4, event("s", 1, 1, process.EventStarted, "many/api"), event("s", 2, 2, process.EventStarted, "many/api@3"),
		event("s", 3, 3, process.EventStarted, "many/api@x"), event("s", 4, 4, process.EventStarted, "many/api@12"),
	)
	for want, f := range map[string]store.EventFilter{
		"4 2 1": {Namespaces: []string{"many"}, Name: "api", Copies: true},
		"1":     {Namespaces: []string{"many"}, Name: "api"},
		"2":     {Namespaces: []string{"many"}, Name: "api@3", Copies: true},
	} {
		var got []string
		for _, e := range downwards(t, s, f, 1) {
			got = append(got, fmt.Sprint(e.Event.Seq))
		}
		same(t, "events of "+want, strings.Fields(want), got)
	}
}

func listedTasks(ctx context.Context, t *testing.T, s store.Store, f store.TaskFilter) []string {
	t.Helper()
	var ids []string
	var after int64
	for {
		tasks, err := s.ListTasks(ctx, f, after, 1)
		must(t, err)
		if len(tasks) == 0 {
			return ids
		}
		ids, after = append(ids, tasks[0].ID), tasks[0].Number
	}
}

func figures(t *testing.T, s store.Store) {
	got, err := s.Counts(t.Context())
	must(t, err)
	same(t, "figures of nothing", store.Counts{Processes: map[string]int{}, Items: map[task.State]int{}}, got)

	row := func(name string, status process.Status) store.Observed {
		return store.Observed{Agent: "x", Process: process.ID{Namespace: "ns", Name: name}, Status: status}
	}
	must(t, s.PutObserved(t.Context(), store.ReportMark{}, []store.Observed{
		row("a", process.Status{State: "running", Hosted: true}),
		row("b", process.Status{State: "running", Flapping: true, Hosted: true}),
		row("c", process.Status{State: "running", Health: &process.Answer{Bad: true}}),
		row("d", process.Status{
			State: "running", Health: &process.Answer{OK: true},
			Config: []process.Drift{{Path: "/x"}},
		}),
		row("e", process.Status{State: "given-up"}),
	}, nil))
	must(t, Create(t.Context(), s, &store.Task{
		ID: "t", Created: epoch,
		Requests: []store.Request{{
			Op: process.Stop, Process: process.ID{Namespace: "ns", Name: "a"},
			Targets: []store.Target{
				{ItemKey: "x", Agent: "x"},
				{ItemKey: "y", Agent: "y"},
				{ItemKey: "z", Outcome: &process.Outcome{Fault: process.AgentUnavailable}},
			},
		}},
	}, store.AuditRow{At: epoch}))
	items, err := s.LeaseItems(t.Context(), epoch, at(1), 1)
	must(t, err)
	must(t, s.MarkAccepted(t.Context(), []string{items[0].ID}, time.Time{}))
	got, err = s.Counts(t.Context())
	must(t, err)
	same(t, "figures", store.Counts{
		Processes: map[string]int{"running": 4, "given-up": 1}, Hosted: 2, Flapping: 1, Unhealthy: 1, Drifted: 1,
		Items: map[task.State]int{task.Pending: 1, task.Accepted: 1},
	}, got)
}

// watching: the places of reports tell which agents have told something, and their rows are read alone.
func watching(t *testing.T, s store.Store) {
	mark := func(agent string, number int64) store.ReportMark {
		return store.ReportMark{Agent: agent, Session: "s", Number: number, Hello: number == 1}
	}
	must(t, s.PutObserved(t.Context(), mark("x", 1), []store.Observed{observed("x", "ns", "web", 1)}, nil))
	must(t, s.PutObserved(t.Context(), mark("y", 1),
		[]store.Observed{observed("y", "ns", "web", 2), observed("y", "ns", "db", 3)}, nil))
	must(t, s.PutObserved(t.Context(), mark("x", 2), []store.Observed{observed("x", "ns", "db", 4)}, nil))
	must(t, s.PutObserved(t.Context(), mark("x", 3), nil, nil))
	places, err := s.LastReports(t.Context())
	must(t, err)
	same(t, "places", map[string]store.ReportPlace{"x": {Session: "s", Number: 2}, "y": {Session: "s", Number: 1}}, places)
	for _, tt := range []struct {
		agents []string
		want   []string
	}{
		{[]string{"y"}, []string{"ns/db@y", "ns/web@y"}},
		{[]string{"x", "y", "nobody"}, []string{"ns/db@x", "ns/db@y", "ns/web@x", "ns/web@y"}},
		{[]string{}, nil},
	} {
		var got []string
		must(t, s.ObservedOn(t.Context(), tt.agents, func(o store.Observed) {
			got = append(got, fmt.Sprintf("%s@%s", o.Process, o.Agent))
			if o.Spec == nil {
				t.Errorf("%s has no spec", o.Process)
			}
		}))
		slices.Sort(got)
		same(t, fmt.Sprint("rows of ", tt.agents), tt.want, got)
	}
	odd := observed("z", "n's", "\"\u00fc,]", 5)
	must(t, s.PutObserved(t.Context(), mark("z", 1), []store.Observed{odd}, nil))
	key := func(agent, namespace, name string) store.ObservedKey {
		return store.ObservedKey{Agent: agent, Process: process.ID{Namespace: namespace, Name: name}}
	}
	keys := []store.ObservedKey{
		key("y", "ns", "db"), key("y", "ns", "gone"), key("x", "other", "web"), key("x", "ns", "web"), key("y", "web", "ns"),
		key(odd.Agent, odd.Process.Namespace, odd.Process.Name),
	}
	for _, spec := range []bool{false, true} {
		var got []string
		must(t, s.ObservedAt(t.Context(), keys, spec, func(o store.Observed) {
			got = append(got, fmt.Sprintf("%s@%s", o.Process, o.Agent))
			if (o.Spec != nil) != spec || o.Status.Instance.PID == 0 {
				t.Errorf("%s, with specs %v: %+v", o.Process, spec, o)
			}
		}))
		slices.Sort(got)
		same(t, "rows of keys", []string{fmt.Sprintf("%s@%s", odd.Process, odd.Agent), "ns/db@y", "ns/web@x"}, got)
	}
	must(t, s.ObservedAt(t.Context(), nil, true, func(o store.Observed) { t.Errorf("no key has %s", o.Process) }))
}

// heldSelections: a selection is for its owner, for its time, and the oldest of too many go.
func heldSelections(t *testing.T, s store.Store) {
	held := func(id, user string) store.CallerSelection {
		return store.CallerSelection{
			ID: id, App: "app", User: user, Until: at(15 * time.Minute), Filter: "state=running", Targets: []byte(`[1]`),
		}
	}
	must(t, s.HoldSelection(t.Context(), held("of-bo", "bo"), 2, false))
	for _, id := range []string{"first", "second", "third"} {
		must(t, s.HoldSelection(t.Context(), held(id, "anna"), 2, false))
	}
	if err := s.HoldSelection(t.Context(), held("third", "anna"), 2, false); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken id gives %v", err)
	}
	for _, tt := range []struct {
		id, app, user string
		now           time.Duration
		found         bool
	}{
		{"first", "app", "anna", 0, false},
		{"second", "app", "anna", 0, true},
		{"third", "app", "anna", 0, true},
		{"of-bo", "app", "bo", 0, true},
		{"third", "app", "bo", 0, false},
		{"third", "another", "anna", 0, false},
		{"third", "app", "anna", 14 * time.Minute, true},
		{"third", "app", "anna", 15 * time.Minute, false},
		{"fourth", "app", "anna", 0, false},
	} {
		got, err := s.FindSelection(t.Context(), tt.id, tt.app, tt.user, at(tt.now))
		if !tt.found {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%+v gives %v", tt, err)
			}
			continue
		}
		must(t, err)
		want := held(tt.id, tt.user)
		want.Until = want.Until.UTC()
		got.Until = got.Until.UTC()
		same(t, tt.id, want, got)
	}
	lost := func(what string, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if _, err := s.FindSelection(t.Context(), id, "app", strings.TrimPrefix(id, "of-"), at(0)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s keeps %s: %v", what, id, err)
			}
		}
	}
	must(t, s.HoldSelection(t.Context(), held("of-cy", "cy"), 3, true)) // of any user of the app
	lost("an app", "of-bo")
	other := held("of-another", "anna")
	other.App = "another"
	must(t, s.HoldSelection(t.Context(), other, 1, true))
	prune := func(now time.Duration, want int) {
		t.Helper()
		n, err := s.PruneSelections(t.Context(), at(now), 10)
		must(t, err)
		same(t, "pruned", want, n)
	}
	prune(15*time.Minute, 0)
	prune(16*time.Minute, 4)
	lost("a time", "of-cy")
}
