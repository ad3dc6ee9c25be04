//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// asked is a request for op on a process of the agents, whose spec has the contact text. Without text it has no spec.
func asked(op process.Op, name, text string, agents ...string) store.Request {
	r := store.Request{Op: op, Process: process.ID{Namespace: "ns", Name: name}}
	if text != "" {
		r.Spec = &process.Spec{User: text}
	}
	for _, a := range agents {
		r.Targets = append(r.Targets, store.Target{ItemKey: a + ":" + name, Spelling: a, Agent: a})
	}
	return r
}

// revisionsOf shows the revisions of a namespace, oldest first, each as "number name from>to hosts".
func revisionsOf(t *testing.T, s store.Store, f store.RevisionFilter) (all []string) {
	t.Helper()
	rows, next, err := s.ListRevisions(t.Context(), f, 100)
	must(t, err)
	if next != 0 {
		t.Errorf("more revisions follow, before %d", next)
	}
	text := func(s *process.Spec) string {
		if s == nil {
			return ""
		}
		return s.User
	}
	for _, r := range rows {
		line := []string{fmt.Sprint(r.Number)}
		for _, c := range r.Changes {
			line = append(line, fmt.Sprintf("%s %s>%s %d", c.Name, text(c.From), text(c.To), c.Hosts))
		}
		all = append([]string{strings.Join(line, "; ")}, all...)
	}
	return all
}

// placedAt shows a namespace by a revision, each process as "name@agent text/number of its revision".
func placedAt(t *testing.T, s store.Store, revision int64) (all []string) {
	t.Helper()
	placed, err := s.PlacedAt(t.Context(), "ns", revision)
	must(t, err)
	for _, p := range placed {
		all = append(all, fmt.Sprintf("%s@%s %s/%d", p.Name, p.Agent, p.Spec.User, p.Spec.Revision))
	}
	return all
}

// revisions: what makes a revision, and what does not.
func revisions(t *testing.T, s store.Store) {
	all := store.RevisionFilter{Namespace: "ns"}
	for i, step := range []struct {
		requests []store.Request
		want     string // the revision that it makes; empty if it makes none
	}{
		{[]store.Request{asked(process.Start, "a", "1", "x", "y")}, "1; a >1 2"},
		{[]store.Request{asked(process.Start, "a", "1", "x", "y")}, ""},
		{[]store.Request{asked(process.Restart, "a", "", "x")}, ""},
		{[]store.Request{asked(process.Query, "a", "2", "x"), asked(process.Stop, "a", "2", "x")}, ""},
		{[]store.Request{asked(process.Register, "a", "2", "x")}, ""}, // it will fail
		{[]store.Request{asked(process.Stop, "b", "9", "x")}, "2; b >9 1"},
		{[]store.Request{asked(process.Host, "a", "2", "x", "y"), asked(process.Update, "b", "3", "x")}, "3; a 1>2 2; b 9>3 1"},
		{[]store.Request{asked(process.Restart, "a", "3", "x"), asked(process.Restart, "a", "4", "y")}, "4; a 2>3 1; a 2>4 1"},
		{[]store.Request{asked(process.Unregister, "b", "", "x")}, "5; b 3> 1"},
		{[]store.Request{asked(process.Unregister, "b", "", "x")}, ""},
		{[]store.Request{asked(process.Register, "b", "3", "x", "y")}, "6; b >3 2"},
		{[]store.Request{asked(process.Update, "a", "5", "x"), asked(process.Update, "a", "6", "x")}, "7; a 3>6 1"},
	} {
		before := revisionsOf(t, s, all)
		create(t, s, fmt.Sprint("task ", i), step.requests...)
		want := before
		if step.want != "" {
			want = append(want, step.want)
		}
		same(t, fmt.Sprint("step ", i), want, revisionsOf(t, s, all))
	}
	removed := asked(process.Stop, "b", "", "y")
	removed.Removes = true
	create(t, s, "removes", removed)
	gone := asked(process.Update, "a", "7", "z")
	gone.Targets[0].Agent, gone.Targets[0].Outcome = "", &process.Outcome{Fault: process.AgentUnavailable}
	create(t, s, "nobody", gone)
	got := revisionsOf(t, s, all)
	same(t, "a removal that begins with a stop", "8; b 3> 1", got[len(got)-1])
	same(t, "of one host", []string{"1; a >1 1", "3; a 1>2 1", "4; a 2>4 1", "6; b >3 1", "8; b 3> 1"},
		revisionsOf(t, s, store.RevisionFilter{Namespace: "ns", Sees: func(agent string) bool { return agent == "y" }}))
	same(t, "of another namespace", []string(nil), revisionsOf(t, s, store.RevisionFilter{Namespace: "other"}))

	same(t, "at 1", []string{"a@x 1/1", "a@y 1/1"}, placedAt(t, s, 1))
	same(t, "at 4", []string{"a@x 3/4", "a@y 4/4", "b@x 3/3"}, placedAt(t, s, 4))
	same(t, "at 8", []string{"a@x 6/7", "a@y 4/4", "b@x 3/6"}, placedAt(t, s, 8))
	if _, err := s.PlacedAt(t.Context(), "ns", 9); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a revision that is not there: %v", err)
	}
	latest, err := s.LatestRevision(t.Context(), "ns")
	must(t, err)
	none, err := s.LatestRevision(t.Context(), "other")
	must(t, err)
	same(t, "latest", []int64{8, 0}, []int64{latest, none})

	from, to, err := s.RevisedSpecs(t.Context(), process.ID{Namespace: "ns", Name: "a"}, "x", 1, 4)
	must(t, err)
	same(t, "specs of two revisions", []string{"1", "3"}, []string{from.User, to.User})
	if from, to, err = s.RevisedSpecs(t.Context(), process.ID{Namespace: "ns", Name: "a"}, "y", 2, 9); err != nil ||
		from != nil || to != nil {
		t.Errorf("revisions that did not change the process: %v, %v, %v", from, to, err)
	}
}

// revisionOfWhatIsGone: a removal whose host does not have the process any more is a revision all the same.
func revisionOfWhatIsGone(t *testing.T, s store.Store) {
	create(t, s, "made", asked(process.Start, "a", "1", "x"))
	gone := asked(process.Stop, "a", "", "x")
	gone.Removes, gone.Targets[0].Outcome = true, &process.Outcome{Text: "was already removed"}
	create(t, s, "gone", gone)
	same(t, "placed", []string(nil), placedAt(t, s, 2))
	cancelled := asked(process.Stop, "b", "", "x")
	create(t, s, "b", asked(process.Start, "b", "1", "x"))
	cancelled.Removes, cancelled.Targets[0].Outcome = true, new(process.NotBegun())
	create(t, s, "cancelled", cancelled)
	same(t, "placed", []string{"b@x 1/3"}, placedAt(t, s, 3))
	latest, err := s.LatestRevision(t.Context(), "ns")
	must(t, err)
	same(t, "latest", int64(3), latest)
}

// revisionsNumbered: an item carries the number of the revision that brought its spec, and a revision what its caller
// said.
func revisionsNumbered(t *testing.T, s store.Store) {
	numbers := func(what string, want string, items []store.Item) {
		t.Helper()
		var got []string
		for _, it := range items {
			if it.Spec == nil {
				got = append(got, fmt.Sprintf("%s@%s none", it.Process.Name, it.Agent))
				continue
			}
			got = append(got, fmt.Sprintf("%s@%s %d", it.Process.Name, it.Agent, it.Spec.Revision))
			leastSize(t, it)
		}
		same(t, what, want, strings.Join(got, ", "))
	}
	t1 := &store.Task{
		ID: "1", App: "app", User: "anna", Created: epoch, Through: "apply", Message: "why not",
		Requests: []store.Request{asked(process.Start, "a", "1", "x")},
	}
	items, err := s.CreateTask(t.Context(), t1, store.AuditRow{At: epoch}, at(time.Minute), 10)
	must(t, err)
	numbers("leased with the task", "a@x 1", items)
	if t1.Requests[0].Spec.Revision != 0 {
		t.Error("the spec of the caller was changed")
	}
	rows, _, err := s.ListRevisions(t.Context(), store.RevisionFilter{Namespace: "ns"}, 1)
	must(t, err)
	rows[0].Changes = nil
	same(t, "revision", store.Revision{
		Namespace: "ns", Number: 1, At: epoch, App: "app", User: "anna", Through: "apply", Message: "why not", Task: "1",
	}, rows[0])

	create(t, s, "2", asked(process.Start, "b", "1", "x"), asked(process.Start, "a", "1", "y"))
	create(t, s, "3", asked(process.Start, "b", "1", "y", "x"), asked(process.Stop, "c", "", "x"))
	must(t, finishAll(t, s, at(2*time.Minute)))
	create(t, s, "4", asked(process.Start, "a", "1", "x", "y"), asked(process.Kill, "b", "7", "x"))
	numbers("leased later", "a@x 1, a@y 2, b@x 0", lease(t, s, at(3*time.Minute), 10))

	two := &store.Task{ID: "5", Created: epoch, Requests: []store.Request{asked(process.Update, "a", "2", "x")}}
	two.Requests = append(two.Requests, two.Requests[0])
	two.Requests[1].Process.Namespace = "other"
	two.ExpectedRevision = &store.ExpectedRevision{Namespace: "ns", Number: 2}
	if err := Create(t.Context(), s, two, store.AuditRow{At: epoch}); !errors.Is(err, store.ErrRevised) {
		t.Errorf("a task for an earlier revision: %v", err)
	}
	latest, err := s.LatestRevision(t.Context(), "other")
	must(t, err)
	same(t, "revisions of a task that was refused", int64(0), latest)
	two.ExpectedRevision.Number = 3
	must(t, Create(t.Context(), s, two, store.AuditRow{At: epoch}))
	for namespace, want := range map[string]int64{"ns": 4, "other": 1} {
		latest, err := s.LatestRevision(t.Context(), namespace)
		must(t, err)
		same(t, "latest of "+namespace, want, latest)
	}
}

// leastSize checks the size of the spec of an item.
func leastSize(t *testing.T, it store.Item) {
	t.Helper()
	text, err := json.Marshal(it.Spec)
	if err != nil || it.SpecSize < len(text) {
		t.Errorf("the spec is said to have %d bytes, and has %d (%v)", it.SpecSize, len(text), err)
	}
}

// finishAll ends all items that can be leased.
func finishAll(t *testing.T, s store.Store, now time.Time) error {
	t.Helper()
	for {
		items := lease(t, s, now, 100)
		if len(items) == 0 {
			return nil
		}
		for _, it := range items {
			finish(t, s, it, success())
		}
		now = now.Add(time.Hour)
	}
}

// openRevision: which task still changes specs of a namespace.
func openRevision(t *testing.T, s store.Store) {
	open := func(want string) {
		t.Helper()
		got, err := s.OpenRevision(t.Context(), "ns")
		must(t, err)
		same(t, "open", want, got)
	}
	open("")
	create(t, s, "stop", asked(process.Stop, "a", "", "x"))
	open("")
	create(t, s, "start", asked(process.Start, "a", "1", "x"))
	open("start")
	must(t, finishAll(t, s, at(time.Minute)))
	open("")
	create(t, s, "again", asked(process.Start, "a", "1", "x"))
	open("again") // the host may not have the spec
	must(t, finishAll(t, s, at(time.Hour)))
	create(t, s, "remove", asked(process.Unregister, "a", "", "x"))
	open("remove")
}

func revisionsAtOnce(t *testing.T, s store.Store) { RevisionsAtOnce(t, s) }

// RevisionsAtOnce: tasks that many callers of the stores of one database create at once never get the same number, and
// none is lost.
func RevisionsAtOnce(t *testing.T, stores ...store.Store) {
	s := stores[0]
	const callers, each = 8, 10
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for n := range each {
				id := fmt.Sprintf("%d-%d", c, n)
				// All callers change one process of a common host, and one of their own.
				err := Create(t.Context(), stores[c%len(stores)], &store.Task{ID: id, Created: epoch, Requests: []store.Request{
					asked(process.Update, "common", id, "x"), asked(process.Update, id, "1", fmt.Sprint("host", c)),
				}}, store.AuditRow{At: epoch})
				if err != nil {
					t.Errorf("task %s: %v", id, err)
				}
			}
		})
	}
	all.Wait()
	rows := revisionsOf(t, s, store.RevisionFilter{Namespace: "ns"})
	if len(rows) != callers*each {
		t.Fatalf("%d revisions, want %d", len(rows), callers*each)
	}
	former := ""
	for i, row := range rows {
		number, text, _ := strings.Cut(row, "; ")
		own, common, _ := strings.Cut(text, "; ")
		change, _, _ := strings.Cut(strings.TrimPrefix(common, "common "), " ")
		from, to, _ := strings.Cut(change, ">")
		if number != fmt.Sprint(i+1) || from != former || own != to+" >1 1" {
			t.Fatalf("revision %d is %q after %q", i+1, row, former)
		}
		former = to
	}
	if got := len(placedAt(t, s, int64(len(rows)))); got != callers*each+1 {
		t.Errorf("%d processes, want %d", got, callers*each+1)
	}
	// Of many callers that know the same revision, one comes first.
	var first, late int
	var mu sync.Mutex
	for c := range callers {
		all.Go(func() {
			err := Create(t.Context(), stores[c%len(stores)], &store.Task{
				ID: fmt.Sprint("known ", c), Created: epoch, ExpectedRevision: &store.ExpectedRevision{Namespace: "ns", Number: callers * each},
				Requests: []store.Request{asked(process.Update, "common", fmt.Sprint("known ", c), "x")},
			}, store.AuditRow{At: epoch})
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, store.ErrRevised) {
				late++
			} else if first++; err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	same(t, "first and late", []int{1, callers - 1}, []int{first, late})
}

// revisionsPaged: pages have all revisions once.
func revisionsPaged(t *testing.T, s store.Store) {
	for n := range 7 {
		create(t, s, fmt.Sprint(n), asked(process.Update, "a", fmt.Sprint(n), "x"))
	}
	var got []int64
	for f := (store.RevisionFilter{Namespace: "ns"}); ; {
		rows, next, err := s.ListRevisions(t.Context(), f, 3)
		must(t, err)
		for _, r := range rows {
			got = append(got, r.Number)
		}
		if next == 0 {
			break
		}
		f.Before = next
	}
	same(t, "pages", []int64{7, 6, 5, 4, 3, 2, 1}, got)
}

// pruneRevisions: the latest revisions stay whatever their age, and what they need with them.
func pruneRevisions(t *testing.T, s store.Store) {
	must(t, s.PutAgent(t.Context(), store.Agent{Key: "x", IP: "10.0.0.1"}))
	const made = store.KeptRevisions + 20
	createAt(t, s, "forgotten", epoch, asked(process.Start, "b", "lost", "removed host"))
	for n := 2; n <= made; n++ {
		createAt(t, s, fmt.Sprint(n), at(time.Duration(n)*time.Hour), asked(process.Start, "a", fmt.Sprint(n), "x"),
			asked(process.Start, "stays", "same", "x"))
	}
	kept := func(want int64) {
		t.Helper()
		rows, _, err := s.ListRevisions(t.Context(), store.RevisionFilter{Namespace: "ns"}, 2*made)
		must(t, err)
		last := rows[len(rows)-1]
		same(t, "kept", []int64{made, want}, []int64{rows[0].Number, last.Number})
		if c := last.Changes[0]; want > 2 && (c.From == nil || c.From.User != fmt.Sprint(want-1)) {
			t.Errorf("what revision %d replaced is lost: %+v", want, c)
		}
		for _, n := range []int64{want, made} {
			same(t, fmt.Sprint("at ", n), fmt.Sprintf("a@x %d/%d", n, n), placedAt(t, s, n)[0])
			same(t, fmt.Sprint("at ", n), "stays@x same/2", placedAt(t, s, n)[len(placedAt(t, s, n))-1])
		}
	}
	prune := func(before time.Time, limit, want int) {
		t.Helper()
		n, err := s.PruneRevisions(t.Context(), before, limit)
		must(t, err)
		same(t, "pruned", want, n)
	}
	prune(at(0), 10, 0)
	prune(at(5*time.Hour), 3, 3)
	prune(at(5*time.Hour), 3, 1)
	kept(5)
	same(t, "before the loss", 2, len(placedAt(t, s, 5)))
	prune(at(1000*time.Hour), 1000, 16)
	prune(at(1000*time.Hour), 1000, 0)
	kept(made - store.KeptRevisions + 1)
}
