//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/upkeep"
)

// selected is a selection of a process.
func selected(name, selector, text string) store.Selection {
	return store.Selection{
		Process: process.ID{Namespace: "ns", Name: name}, Selector: selector, Spec: &process.Spec{User: text},
		App: "app", User: "anna", At: epoch,
	}
}

// memberOn names a process on a host.
func memberOn(name, agent string) store.ObservedKey {
	return store.ObservedKey{Agent: agent, Process: process.ID{Namespace: "ns", Name: name}}
}

// upkeepOn shows the rows of agents, each as "name@agent member serial goal tries".
func upkeepOn(t *testing.T, s store.Store, agents ...string) (all []string) {
	t.Helper()
	rows, err := s.UpkeepOn(t.Context(), agents)
	must(t, err)
	for _, u := range rows {
		all = append(all, fmt.Sprintf("%s@%s %s %d %s %d", u.Process.Name, u.Agent, u.Member, u.Serial, u.Goal, u.Tries))
	}
	slices.Sort(all)
	return all
}

// byAnna is a revision of a change of selections.
//
//nolint:gochecknoglobals // it never changes
var byAnna = store.Revision{At: epoch, App: "app", User: "anna", Through: "apply", Message: "why"}

// selections: a change replaces the selections of the entries of a file and of their copies, or all.
func selections(t *testing.T, s store.Store) {
	inForce := func(what string, want ...string) {
		t.Helper()
		list, err := s.ListSelections(t.Context(), "ns")
		must(t, err)
		var got []string
		for _, one := range list {
			got = append(got, fmt.Sprintf("%s %s %s", one.Process.Name, one.Selector, one.Spec.User))
		}
		same(t, what, want, got)
	}
	inForce("at first")
	put := func(c store.SelectionChange) {
		t.Helper()
		c.Namespace = "ns"
		must(t, s.PutSelections(t.Context(), c, byAnna, nil, store.AuditRow{At: epoch, Action: "apply"}))
	}
	put(store.SelectionChange{Entries: []string{"a", "b"}, Now: []store.Selection{
		selected("a", "role=web", "1"), selected("a", "zone=b", "2"), selected("b@1", "role=web", "3"),
		selected("b@2", "role=web", "3"),
	}, Members: []store.ObservedKey{memberOn("a", "x"), memberOn("b@1", "x"), memberOn("b@2", "x")}})
	inForce("of a file", "a role=web 1", "a zone=b 2", "b@1 role=web 3", "b@2 role=web 3")
	same(t, "members", []string{"a@x joined 1  0", "b@1@x joined 1  0", "b@2@x joined 1  0"}, upkeepOn(t, s, "x", "y"))

	put(store.SelectionChange{
		Entries: []string{"b"}, Now: []store.Selection{selected("b@1", "role=db", "4")},
		Members: []store.ObservedKey{memberOn("b@1", "y")}, Released: []store.ObservedKey{memberOn("b@1", "x")},
	})
	inForce("of a file with fewer copies", "a role=web 1", "a zone=b 2", "b@1 role=db 4")
	same(t, "members then", []string{"a@x joined 1  0", "b@1@x  2  0", "b@1@y joined 1  0", "b@2@x  2  0"},
		upkeepOn(t, s, "x", "y"))

	put(store.SelectionChange{Entries: []string{"a"}, Now: []store.Selection{selected("a", "role=web", "2")}})
	same(t, "a member that has ceased to match", []string{"a@x former 2  0"}, upkeepOn(t, s, "x")[:1])

	put(store.SelectionChange{Entries: []string{"c"}, All: true, Now: []store.Selection{selected("c", "role=web", "5")}})
	inForce("of a file that prunes", "c role=web 5")
	all, err := s.ListSelections(t.Context(), "")
	must(t, err)
	if len(all) != 1 || !all[0].At.Equal(epoch) || all[0].App != "app" || all[0].User != "anna" {
		t.Errorf("of all namespaces: %+v", all)
	}
	if other, err := s.ListSelections(t.Context(), "other"); err != nil || other != nil {
		t.Errorf("of another namespace: %v, %v", other, err)
	}
	revisions, _, err := s.ListRevisions(t.Context(), store.RevisionFilter{Namespace: "ns"}, 10)
	must(t, err)
	if len(revisions) != 4 || revisions[0].Number != 4 || revisions[0].Message != "why" || revisions[0].User != "anna" {
		t.Errorf("the revisions are %+v", revisions)
	}
	err = s.PutSelections(t.Context(), store.SelectionChange{Namespace: "ns", All: true}, byAnna,
		&store.ExpectedRevision{Namespace: "ns", Number: 3}, store.AuditRow{At: epoch})
	if !errors.Is(err, store.ErrRevised) {
		t.Errorf("a change that is late: %v", err)
	}
	inForce("after a change that is late", "c role=web 5")
}

// selectionsWithTask: a task and its selections are stored together or not at all.
func selectionsWithTask(t *testing.T, s store.Store) {
	task := func(id string, known int64) *store.Task {
		return &store.Task{
			ID: id, App: "app", Created: epoch, Through: "apply", Requests: []store.Request{asked(process.Start, "a", "1", "x")},
			ExpectedRevision: &store.ExpectedRevision{Namespace: "ns", Number: known},
			Selections: &store.SelectionChange{
				Namespace: "ns", Entries: []string{"a"}, Now: []store.Selection{selected("a", "role=web", "1")},
				Members: []store.ObservedKey{memberOn("a", "x")},
			},
		}
	}
	if err := Create(t.Context(), s, task("late", 7), store.AuditRow{At: epoch}); !errors.Is(err, store.ErrRevised) {
		t.Fatalf("a task that is late: %v", err)
	}
	if list, err := s.ListSelections(t.Context(), ""); err != nil || list != nil {
		t.Errorf("it left selections: %v, %v", list, err)
	}
	same(t, "members of a task that is late", []string(nil), upkeepOn(t, s, "x"))
	must(t, Create(t.Context(), s, task("first", 0), store.AuditRow{At: epoch}))
	list, err := s.ListSelections(t.Context(), "")
	must(t, err)
	same(t, "selections of a task", 1, len(list))
	same(t, "members of a task", []string{"a@x joined 1  0"}, upkeepOn(t, s, "x"))
}

// upkeepOnce: a row changes only from the serial that its writer knows, alone or with a task.
func upkeepOnce(t *testing.T, s store.Store) {
	row := func(serial int64, goal string) store.Upkeep {
		return store.Upkeep{
			Process: process.ID{Namespace: "ns", Name: "a"}, Agent: "x", Serial: serial,
			Memory: upkeep.Memory{Member: upkeep.Joined, Goal: goal, At: at(time.Minute), Tries: 3},
		}
	}
	other := row(1, "other")
	other.Agent = "y"
	for i, step := range []struct {
		rows []store.Upkeep
		err  error
		want string
	}{
		{[]store.Upkeep{row(2, "too far")}, store.ErrUpkept, ""},
		{[]store.Upkeep{row(1, "first")}, nil, "a@x joined 1 first 3"},
		{[]store.Upkeep{row(1, "again")}, store.ErrUpkept, "a@x joined 1 first 3"},
		{[]store.Upkeep{other, row(3, "too far")}, store.ErrUpkept, "a@x joined 1 first 3"},
		{[]store.Upkeep{row(2, "second"), other}, nil, "a@x joined 2 second 3"},
	} {
		if err := s.PutUpkeep(t.Context(), step.rows); !errors.Is(err, step.err) {
			t.Errorf("step %d: %v", i, err)
		}
		var want []string
		if step.want != "" {
			want = []string{step.want}
		}
		same(t, fmt.Sprint("step ", i), want, upkeepOn(t, s, "x"))
	}
	task := func(id string, serial int64) error {
		return Create(t.Context(), s, &store.Task{
			ID: id, App: "app", Created: epoch, Upkeep: []store.Upkeep{row(serial, id)},
			Requests: []store.Request{asked(process.Start, "a", "1", "x")},
		}, store.AuditRow{At: epoch})
	}
	must(t, task("one", 3))
	if err := task("two", 3); !errors.Is(err, store.ErrUpkept) {
		t.Errorf("a second server: %v", err)
	}
	if _, err := s.TaskOpen(t.Context(), "two"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the task of the second server: %v", err)
	}
	same(t, "after both", []string{"a@x joined 3 one 3"}, upkeepOn(t, s, "x"))
	rows, err := s.UpkeepOn(t.Context(), []string{"nobody", "x"})
	must(t, err)
	if len(rows) != 1 || !rows[0].At.Equal(at(time.Minute)) || rows[0].Agent != "x" {
		t.Errorf("the row is %+v", rows)
	}
}

// placedOn: what is placed on hosts, who brought it, and what became of it.
func placedOn(t *testing.T, s store.Store) {
	task := &store.Task{
		ID: "one", App: "app", User: "anna", Created: epoch, Through: "apply",
		Requests: []store.Request{asked(process.Start, "a", "1", "x", "y"), asked(process.Start, "b", "2", "x")},
	}
	items, err := s.CreateTask(t.Context(), task, store.AuditRow{At: epoch}, at(time.Minute), 10)
	must(t, err)
	create(t, s, "asks", asked(process.Query, "c", "", "y"))
	busy, err := s.BusyOn(t.Context(), []string{"x", "y", "z"})
	must(t, err)
	slices.SortFunc(busy, func(a, b store.ObservedKey) int { return process.CompareIDs(a.Process, b.Process) })
	same(t, "busy", 3, len(busy))
	same(t, "busy last", memberOn("b", "x"), busy[2])
	for _, it := range items {
		outcome := process.Outcome{Text: process.Success}
		if it.Agent == "y" {
			outcome.Fault = process.AgentUnavailable
		}
		_, err := s.Finish(t.Context(), []store.ReportedOutcome{{Agent: it.Agent, Item: it.ID, Outcome: outcome}})
		must(t, err)
	}
	if busy, err = s.BusyOn(t.Context(), []string{"x", "y"}); err != nil || busy != nil {
		t.Errorf("busy at the end: %v, %v", busy, err)
	}
	placed, err := s.PlacedOn(t.Context(), []string{"z", "x", "y"})
	must(t, err)
	var got []string
	for _, p := range placed {
		got = append(got, fmt.Sprintf("%s@%s %d/%d %s %s %s/%s", p.Process.Name, p.Agent, p.Revision, p.Spec.Revision,
			p.Spec.User, p.Through, p.App, p.User))
		if p.Task != "one" || !p.At.Equal(epoch) {
			t.Errorf("brought by %s at %v", p.Task, p.At)
		}
	}
	slices.Sort(got)
	same(t, "placed", []string{"a@x 1/1 1 apply app/anna", "a@y 1/1 1 apply app/anna", "b@x 1/1 2 apply app/anna"}, got)
	got = nil
	create(t, s, "gse", asked(process.Start, "a", "3", "x"), asked(process.Unregister, "b", "", "x"))
	for name, want := range map[string]string{"a": "1 1 2", "b": "1 2 2"} {
		list, err := s.FiledAs(t.Context(), process.ID{Namespace: "ns", Name: name}, []string{"x"})
		must(t, err)
		if len(list) != 1 {
			t.Fatalf("a file says of %s: %+v", name, list)
		}
		filed := list[0]
		if filed.Ended == nil || filed.Through != "apply" || filed.Agent != "x" {
			t.Fatalf("a file says of %s: %+v", name, filed)
		}
		same(t, "filed "+name, want, fmt.Sprint(filed.Revision, " ", filed.Spec.User, " ", filed.Ended.Number))
	}
	removedOn := func() []store.ObservedKey {
		t.Helper()
		removed, err := s.RemovedOn(t.Context(), []string{"z", "x", "y"})
		must(t, err)
		return removed
	}
	same(t, "removed", []store.ObservedKey{memberOn("b", "x")}, removedOn())
	create(t, s, "again", asked(process.Start, "b", "4", "x"))
	same(t, "removed, and there again", []store.ObservedKey(nil), removedOn())
	for name, want := range map[string][]string{"a": {"x false", "y true"}, "c": nil} {
		list, err := s.FiledAs(t.Context(), process.ID{Namespace: "ns", Name: name}, []string{"z", "y", "x"})
		must(t, err)
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprint(p.Agent, " ", p.Ended == nil))
		}
		slices.Sort(got)
		same(t, "in force of "+name, want, got)
	}
	undoneFile(t, s)
	leftOn(t, s)
	must(t, s.TaskFaults(t.Context(), []string{"none", "one"}, []string{"y", "z"},
		func(task string, of store.ObservedKey, fault process.Fault) {
			got = append(got, fmt.Sprintf("%s %s@%s %s", task, of.Process.Name, of.Agent, fault))
		}))
	same(t, "faults", []string{"one a@y " + string(process.AgentUnavailable)}, got)
}

// undoneFile: an undo brings back what a host had, and the file that counted then.
func undoneFile(t *testing.T, s store.Store) {
	t.Helper()
	revisions := 0
	through := func(way string, requests ...store.Request) {
		t.Helper()
		revisions++
		must(t, Create(t.Context(), s, &store.Task{
			ID: fmt.Sprint("undone-", revisions), App: "app", Created: epoch, Through: way, Requests: requests,
		}, store.AuditRow{At: epoch}))
	}
	filed := func(what string, want ...string) {
		t.Helper()
		list, err := s.FiledAs(t.Context(), process.ID{Namespace: "ns", Name: "u"}, []string{"x", "y", "z"})
		must(t, err)
		var got []string
		for _, p := range list {
			got = append(got, p.Agent+" "+p.Spec.User)
		}
		slices.Sort(got)
		same(t, what, want, got)
	}
	through("gse", asked(process.Register, "u", "own", "z"))
	filed("a host without a file")
	through("apply", asked(process.Register, "u", "first", "x", "y"))
	through("operation", asked(process.Update, "u", "by hand", "x"))
	filed("a change by hand", "x first", "y first")
	through("apply", asked(process.Update, "u", "second", "x", "y", "z"))
	filed("a second apply", "x second", "y second", "z second")
	through("undo", asked(process.Update, "u", "by hand", "x"), asked(process.Update, "u", "first", "y"),
		asked(process.Update, "u", "own", "z"))
	filed("its undo", "x first", "y first")
	through("undo", asked(process.Update, "u", "second", "x", "y", "z"))
	filed("the undo of the undo", "x second", "y second", "z second")
	through("operation", asked(process.Unregister, "u", "", "x"))
	filed("a removal by hand", "x second", "y second", "z second")
	through("operation", asked(process.Register, "u", "by hand", "x"))
	filed("a registration by hand", "x second", "y second", "z second")
	removed := func(what string, want ...store.ObservedKey) {
		t.Helper()
		got, err := s.RemovedOn(t.Context(), []string{"x", "y", "z"})
		must(t, err)
		same(t, what, want, got)
	}
	through("operation", asked(process.Unregister, "u", "", "y"))
	removed("removed against the file", memberOn("u", "y"))
	gone := asked(process.Stop, "u", "", "y")
	gone.Removes, gone.Targets[0].Outcome = true, &process.Outcome{Text: "was already removed"}
	through("undo", gone)
	filed("the undo of what somebody has removed", "x second", "z second")
	removed("removed without a file")
}

// leftOn: what a file has removed from a host that still has it, until the host has it no more, or gets it back.
func leftOn(t *testing.T, s store.Store) {
	t.Helper()
	revisions := 0
	left := func(through string, want string, requests ...store.Request) {
		t.Helper()
		revisions++
		must(t, Create(t.Context(), s, &store.Task{
			ID: fmt.Sprint("left-", revisions), App: "app", User: "anna", Created: epoch, Through: through, Requests: requests,
		}, store.AuditRow{At: epoch}))
		list, err := s.LeftOn(t.Context(), []string{"z", "p", "q"})
		must(t, err)
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprintf("%s@%s %s %s %s", p.Process.Name, p.Agent, p.Ended.Task, p.Ended.Through, p.Ended.User))
			if !p.Ended.At.Equal(epoch) || p.Ended.Number <= p.Revision {
				t.Errorf("ended by %+v, brought by %d", p.Ended, p.Revision)
			}
		}
		slices.Sort(got)
		same(t, fmt.Sprint("left after ", revisions), want, strings.Join(got, ", "))
	}
	var observed []store.Observed
	for _, name := range []string{"l", "m"} {
		observed = append(observed, store.Observed{
			Agent: "p", Process: process.ID{Namespace: "ns", Name: name}, Status: process.Status{Known: true},
		})
	}
	must(t, s.PutObserved(t.Context(), store.ReportMark{Agent: "p"}, observed, nil))
	gone := func(name string, agents ...string) store.Request {
		r := asked(process.Stop, name, "", agents...)
		r.Removes = true
		return r
	}
	left("apply", "", asked(process.Register, "l", "1", "p", "q"), asked(process.Register, "m", "1", "p"))
	left("apply", "l@p left-2 apply anna", gone("l", "p", "q"))
	left("undo", "l@p left-2 apply anna, m@p left-3 undo anna", gone("m", "p"))
	left("operation", "m@p left-3 undo anna", asked(process.Register, "l", "1", "p"))
	left("operation", "", asked(process.Register, "m", "1", "p"), gone("l", "p"))
}

// selectionsOfRollout: what a rollout selects comes into force when the rollout is done, once.
func selectionsOfRollout(t *testing.T, s store.Store) {
	change := func(contact string, hosts ...string) store.SelectionChange {
		c := store.SelectionChange{
			Namespace: "ns", Entries: []string{"a"}, Now: []store.Selection{selected("a", "role=web", contact)},
		}
		for _, host := range hosts {
			c.Members = append(c.Members, memberOn("a", host))
		}
		return c
	}
	inForce := func(what, want string) {
		t.Helper()
		list, err := s.ListSelections(t.Context(), "ns")
		must(t, err)
		if len(list) != 1 || list[0].Spec.User != want {
			t.Errorf("%s: %+v, want that of %s", what, list, want)
		}
	}
	become := func(state rollout.State) {
		t.Helper()
		_, err := s.ChangeRollout(t.Context(), "ro-1", "", store.RolloutChange{}, func(r *rollout.Rollout) error {
			r.State = state
			return nil
		})
		must(t, err)
	}
	r, before, after := newRollout("ro-1", "a"), change("before", "x"), change("after", "x", "y")
	must(t, s.PutSelections(t.Context(), before, byAnna, nil, store.AuditRow{At: epoch}))
	r.Selections, r.Former = &after, &before
	must(t, createRollout(t.Context(), s, r, store.AuditRow{At: epoch}))
	for _, state := range []rollout.State{rollout.Running, rollout.Paused, rollout.Aborted, rollout.Running} {
		become(state)
		inForce("while the rollout is "+string(state), "before")
		if former, err := s.FormerSelections(t.Context(), "ro-1"); err != nil || former != nil {
			t.Errorf("former while it is %s: %v, %v", state, former, err)
		}
		aborted, err := s.AbortedRollouts(t.Context(), []string{"ro-1", "ro-9"})
		must(t, err)
		same(t, "aborted", state == rollout.Aborted, len(aborted) == 1)
	}
	become(rollout.Done)
	inForce("when it is done", "after")
	same(t, "members", []string{"a@x joined 3  0", "a@y joined 1  0"}, upkeepOn(t, s, "x", "y"))
	former, err := s.FormerSelections(t.Context(), "ro-1")
	must(t, err)
	same(t, "former", &before, former)

	must(t, s.PutSelections(t.Context(), change("later"), byAnna, nil, store.AuditRow{At: epoch}))
	become(rollout.Running)
	become(rollout.Done)
	inForce("after a retry", "later")
	overtaken, found := change("overtaken"), change("before")
	overtaken.Entries, found.Entries = []string{"a", "b"}, []string{"a", "b"}
	overtaken.Now = append(overtaken.Now, selected("b", "role=web", "its own"))
	r = newRollout("ro-3", "c")
	r.Selections, r.Former = &overtaken, &found
	found.Now[0].At = at(-time.Hour) // an apply came after the rollout was accepted
	must(t, createRollout(t.Context(), s, r, store.AuditRow{At: epoch}))
	_, err = s.ChangeRollout(t.Context(), "ro-3", "", store.RolloutChange{}, func(r *rollout.Rollout) error {
		r.State = rollout.Done
		return nil
	})
	must(t, err)
	list, err := s.ListSelections(t.Context(), "ns")
	must(t, err)
	if len(list) != 2 || list[0].Spec.User != "later" || list[1].Spec.User != "its own" {
		t.Errorf("an apply during a rollout: %+v", list)
	}
	must(t, createRollout(t.Context(), s, newRollout("ro-2", "b"), store.AuditRow{At: epoch}))
	if former, err := s.FormerSelections(t.Context(), "ro-2"); err != nil || former != nil {
		t.Errorf("of a rollout without selections: %v, %v", former, err)
	}
}

// unfiled: what hosts have by another way than a file, and what becomes of it once a file has it.
func unfiled(t *testing.T, s store.Store) {
	shows := func(what string, want ...string) []store.Placement {
		t.Helper()
		list, err := s.Unfiled(t.Context(), "ns")
		must(t, err)
		var got []string
		for _, p := range list {
			got = append(got, fmt.Sprintf("%s@%s %d %s", p.Process.Name, p.Agent, p.Revision, p.Spec.User))
		}
		slices.Sort(got)
		same(t, what, want, got)
		return list
	}
	through := func(id, way string, requests ...store.Request) {
		t.Helper()
		must(t, Create(t.Context(), s, &store.Task{
			ID: id, App: "app", Created: epoch, Through: way, Requests: requests,
		}, store.AuditRow{At: epoch}))
	}
	through("1", "gse", asked(process.Register, "a", "own", "x", "y"))
	through("2", "apply", asked(process.Register, "b", "file", "x", "y"))
	shows("of another way", "a@x 1 own", "a@y 1 own")
	through("3", "operation", asked(process.Update, "b", "hand", "x"))
	list := shows("changed by hand", "a@x 1 own", "a@y 1 own", "b@x 3 hand")
	through("4", "operation", asked(process.Update, "a", "later", "y"))
	must(t, s.File(t.Context(), "ns", list, nil))
	shows("once a file has the others", "a@y 4 later")
	placed, err := s.PlacedOn(t.Context(), []string{"x"})
	must(t, err)
	for _, p := range placed {
		if !p.Filed {
			t.Errorf("%s is not of the file", p.Process.Name)
		}
	}
	through("5", "operation", asked(process.Update, "b", "again", "x"))
	filed, err := s.FiledAs(t.Context(), process.ID{Namespace: "ns", Name: "b"}, []string{"x"})
	must(t, err)
	if len(filed) != 1 || filed[0].Spec.User != "hand" {
		t.Errorf("the file of b on x is %+v", filed)
	}
	through("6", "operation", asked(process.Update, "b", "hand", "x"))
	shows("changed back by hand", "a@y 4 later")
	removed := func(what string, want ...string) []store.ObservedKey {
		t.Helper()
		keys, err := s.RemovedOn(t.Context(), []string{"x", "y"})
		must(t, err)
		var got []string
		for _, key := range keys {
			got = append(got, key.Process.Name+"@"+key.Agent)
		}
		slices.Sort(got)
		same(t, what, want, got)
		return keys
	}
	through("7", "operation", asked(process.Unregister, "b", "", "x", "y"))
	keys := removed("removed by hand", "b@x", "b@y")
	through("8", "operation", asked(process.Register, "b", "hand", "y"))
	must(t, s.File(t.Context(), "ns", nil, keys))
	removed("once a file has it no more")
	filed, err = s.FiledAs(t.Context(), process.ID{Namespace: "ns", Name: "b"}, []string{"x", "y"})
	must(t, err)
	if len(filed) != 1 || filed[0].Agent != "y" {
		t.Errorf("the file of b is %+v", filed)
	}
	through("9", "apply", asked(process.Unregister, "b", "", "y"))
	through("10", "operation", asked(process.Register, "b", "file", "y"))
	filed, err = s.FiledAs(t.Context(), process.ID{Namespace: "ns", Name: "b"}, []string{"x", "y"})
	must(t, err)
	if len(filed) != 0 {
		t.Errorf("a file has removed b, and has %+v", filed)
	}
}
