//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

func leaseOnce(t *testing.T, s store.Store) {
	createAt(t, s, "t", at(time.Second), request(process.Start, "a", "x", "y", "z"))
	if _, ok, err := s.NextDue(t.Context()); err != nil || !ok {
		t.Fatalf("next due: %v, %v", ok, err)
	}
	same(t, "before it is created", []string{}, brief(lease(t, s, epoch, 10)))
	next, _, err := s.NextDue(t.Context())
	must(t, err)
	same(t, "next due", at(time.Second), next)

	first := lease(t, s, at(time.Second), 2)
	same(t, "first", []string{"start x:a", "start y:a"}, brief(first))
	same(t, "rest", []string{"start z:a"}, brief(lease(t, s, at(2*time.Second), 10)))
	same(t, "while leased", []string{}, brief(lease(t, s, at(30*time.Second), 10)))
	next, _, err = s.NextDue(t.Context())
	must(t, err)
	same(t, "end of the lease", at(61*time.Second), next)
	same(t, "after the lease", []string{"start x:a", "start y:a"}, brief(lease(t, s, at(61*time.Second), 10)))

	_, spec := nginx("a")
	want := first[0]
	if want.ID == "" || want.ID == first[1].ID {
		t.Errorf("ids are %q and %q", want.ID, first[1].ID)
	}
	same(t, "item", store.Item{
		ID: want.ID, Task: "t", App: "app", Agent: "x", Process: process.ID{Namespace: "ns", Name: "a"},
		Op: process.Start, Spec: spec.Numbered(1), SpecSize: want.SpecSize,
		State: task.Pending, Created: at(time.Second), Deadline: at(time.Second + task.WaitLimit),
	}, want)
}

// createLeased: CreateTask leases the items that would have been due, and no other caller gets them before the lease
// ends.
func createLeased(t *testing.T, s store.Store) {
	create(t, s, "earlier", request(process.Start, "a", "x"))
	earlier := leaseOne(t, s, epoch)
	known := request(process.Start, "a", "k")
	known.Targets[0].Outcome = &process.Outcome{Fault: process.AgentUnavailable}
	now := at(time.Second)
	removal := request(process.Stop, "a", "x", "y")
	removal.Removes = true
	items, err := s.CreateTask(t.Context(), &store.Task{
		ID: "t", App: "app", User: "user", Created: now, Ordered: true,
		Requests: []store.Request{
			known, removal, request(process.Start, "b", "x", "y", "z"), request(process.Query, "b", "x"),
		},
	}, store.AuditRow{At: now, Action: "operate"}, now.Add(time.Hour), 3)
	must(t, err)
	same(t, "leased, but for one that waits for an earlier task", []string{"stop y:a", "start x:b"}, brief(items))
	same(t, "the rest", []string{"start y:b", "start z:b"}, brief(lease(t, s, now, 10)))
	same(t, "keys", 6, len(views(t, s, "t")))
	same(t, "ordered", []bool{false, true}, []bool{earlier.Ordered, items[0].Ordered})
	same(t, "removals", []bool{true, false}, []bool{items[0].Removes, items[1].Removes})

	again, err := s.LeaseItems(t.Context(), now.Add(time.Hour), now.Add(2*time.Hour), 10)
	must(t, err)
	again = slices.DeleteFunc(again, func(it store.Item) bool { return !slices.Contains(ids(items), it.ID) })
	same(t, "as they are leased again", items, again)
	finish(t, s, items[1], success())
	finish(t, s, earlier, success())
	same(t, "what they held up", []string{"stop x:a", "query x:b"}, brief(lease(t, s, now, 10)))

	none, err := s.CreateTask(t.Context(),
		&store.Task{ID: "u", Created: now, Requests: []store.Request{request(process.Stop, "c", "x")}},
		store.AuditRow{At: now}, now.Add(time.Hour), 0)
	must(t, err)
	same(t, "without room", []string{}, brief(none))
	same(t, "is due", []string{"stop x:c"}, brief(lease(t, s, now, 10)))
}

func leaseInOrder(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x", "y"), request(process.Stop, "a", "x"),
		request(process.Start, "b", "x"))
	items := lease(t, s, epoch, 10)
	same(t, "first", []string{"start x:a", "start y:a", "start x:b"}, brief(items))
	same(t, "before the first is done", []string{}, brief(lease(t, s, at(time.Second), 10)))
	must(t, s.MarkAccepted(t.Context(), ids(items), time.Time{}))
	must(t, s.Begin(t.Context(), "x", map[string]time.Time{items[0].ID: at(time.Hour)}))
	same(t, "while the first runs", []string{}, brief(lease(t, s, at(5*time.Minute), 10)))
	if next, ok, err := s.NextDue(t.Context()); err != nil || ok {
		t.Errorf("something is due at %v: error %v", next, err)
	}
	finish(t, s, items[0], success())
	next, ok, err := s.NextDue(t.Context())
	must(t, err)
	if !ok || next.After(at(5*time.Minute)) {
		t.Errorf("the second is not due: %v %v", next, ok)
	}
	same(t, "second", []string{"stop x:a"}, brief(lease(t, s, at(5*time.Minute), 10)))
}

func leaseAcrossTasks(t *testing.T, s store.Store) {
	first := request(process.Start, "a", "x")
	create(t, s, "1", first)
	second := request(process.Stop, "a", "x", "y")
	second.Targets[0].ItemKey = "another spelling of x"
	create(t, s, "2", second)
	create(t, s, "3", request(process.Restart, "a", "x"))
	create(t, s, "4", request(process.Start, "b", "x")) // another process
	namespace := request(process.Start, "a", "x")
	namespace.Process.Namespace = "other"
	create(t, s, "5", namespace) // another process of the same name

	items := lease(t, s, epoch, 10)
	same(t, "heads", []string{"start x:a", "stop y:a", "start x:b", "start x:a"}, brief(items))
	finish(t, s, items[0], success())
	stop := leaseOne(t, s, epoch)
	same(t, "second", "2", stop.Task)
	// The middle item ends first: the last item still waits for the first.
	create(t, s, "6", request(process.Start, "a", "x"))
	if late, err := s.Overdue(t.Context(), at(time.Hour), 10); err != nil || len(late) == 0 {
		t.Fatalf("overdue: %v, %v", late, err)
	} else {
		for _, it := range late {
			if it.Task == "3" {
				finish(t, s, it, process.Outcome{Fault: process.Failed, Text: "no result"})
			}
		}
	}
	same(t, "while the second runs", []string{}, brief(lease(t, s, at(time.Second), 10)))
	finish(t, s, stop, success())
	same(t, "last", "6", leaseOne(t, s, at(2*time.Second)).Task)
}

// pass: a kill waits for no items of other tasks. A stop, an unhost and a query wait until the agent has the older
// items. Within a task the order counts.
func pass(t *testing.T, s store.Store) {
	waits := func(what string, want bool) {
		t.Helper()
		got, err := s.Pass(t.Context())
		must(t, err)
		same(t, what, want, got)
	}
	create(t, s, "1", request(process.Start, "a", "x"))
	create(t, s, "2", request(process.Reload, "a", "x"))
	create(t, s, "3", request(process.Stop, "a", "x"), request(process.Query, "a", "x"))
	create(t, s, "4", request(process.Kill, "a", "x"))
	due := lease(t, s, epoch, 10)
	same(t, "at once", []string{"start x:a", "kill x:a"}, brief(due))
	waits("while the agent has none", true)
	must(t, s.MarkAccepted(t.Context(), []string{due[0].ID}, time.Time{}))
	waits("while a reload waits before it", true)
	same(t, "while a reload waits", []string{}, brief(lease(t, s, epoch, 10)))
	finish(t, s, due[0], success())
	reload := leaseOne(t, s, epoch)
	same(t, "next", process.Reload, reload.Op)
	must(t, s.Begin(t.Context(), "x", map[string]time.Time{reload.ID: at(time.Hour)}))
	waits("a query, for the stop of its task", true)
	stop := leaseOne(t, s, epoch)
	same(t, "next", process.Stop, stop.Op)
	must(t, s.MarkAccepted(t.Context(), []string{stop.ID}, time.Time{}))
	waits("now that the agent has all", false)
	same(t, "last", process.Query, leaseOne(t, s, epoch).Op)
	create(t, s, "5", request(process.Start, "a", "x"))
	waits("a start", false)
	same(t, "a start", []string{}, brief(lease(t, s, epoch, 10)))

	create(t, s, "6", request(process.Start, "b", "x"), request(process.Kill, "b", "x"))
	start := leaseOne(t, s, epoch)
	same(t, "first of a task", process.Start, start.Op)
	waits("a kill, for the start of its task", true)
	must(t, s.MarkAccepted(t.Context(), []string{start.ID}, time.Time{}))
	waits("a kill", false)
	same(t, "then", process.Kill, leaseOne(t, s, epoch).Op)
}

func leaseBesideFlood(t *testing.T, s store.Store) {
	for i := range 50 {
		create(t, s, fmt.Sprint("flood", i), request(process.Restart, "a", "x"))
	}
	create(t, s, "t", request(process.Start, "b", "y"))
	same(t, "due", []string{"restart x:a", "start y:b"}, brief(lease(t, s, epoch, 2)))
}

func resend(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x", "y"))
	items := lease(t, s, epoch, 10)
	must(t, s.MarkSent(t.Context(), ids(items), at(3*time.Second)))
	must(t, s.MarkAccepted(t.Context(), ids(items[1:]), time.Time{}))
	same(t, "before the time", []string{}, brief(lease(t, s, at(2*time.Second), 10)))
	again := leaseOne(t, s, at(3*time.Second))
	if again.ID != items[0].ID || again.State != task.Sent || again.Attempts != 1 {
		t.Errorf("sent again as %+v, want id %s", again, items[0].ID)
	}
	must(t, s.MarkSent(t.Context(), []string{again.ID}, at(9*time.Second)))
	if again = leaseOne(t, s, at(9*time.Second)); again.Attempts != 2 {
		t.Errorf("%d attempts, want 2", again.Attempts)
	}
	// An item that waited for its resend time comes before a younger one that was due earlier.
	createAt(t, s, "younger", at(4*time.Second), request(process.Start, "b", "x"))
	both := lease(t, s, at(5*time.Minute), 10)
	same(t, "oldest first", []string{"start x:a", "start x:b"}, brief(both))
	finish(t, s, both[1], success())
	// A late record of an attempt does not undo the receipt.
	must(t, s.MarkAccepted(t.Context(), []string{again.ID}, time.Time{}))
	must(t, s.MarkSent(t.Context(), []string{again.ID}, at(10*time.Second)))
	same(t, "after the receipt", []string{}, brief(lease(t, s, at(time.Hour), 10)))
}

func unfinished(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Start, "a", "x", "y"), request(process.Start, "b", "x"),
		request(process.Start, "c", "x"),
		request(process.Start, "d", "x"), request(process.Start, "e", "x"))
	items := lease(t, s, epoch, 10)
	must(t, s.MarkSent(t.Context(), ids(items[:1]), at(time.Second)))
	must(t, s.MarkAccepted(t.Context(), ids(items[1:3]), time.Time{}))
	must(t, s.Begin(t.Context(), "x", map[string]time.Time{items[3].ID: at(time.Hour)}))
	finish(t, s, items[4], success())
	got, err := s.Unfinished(t.Context(), "x")
	must(t, err)
	same(t, "unfinished", []string{"start x:a", "start x:b", "start x:c"}, brief(got))
	same(t, "states", []task.State{task.Sent, task.Accepted, task.Begun},
		[]task.State{got[0].State, got[1].State, got[2].State})
	same(t, "deadline", at(time.Hour), got[2].Deadline)
	same(t, "spec", items[0].Spec, got[0].Spec)
}

// concurrent runs writers and readers in parallel, and expects that every item is leased and finished exactly once.
func concurrent(t *testing.T, s store.Store) {
	const writers, tasks, targets = 8, 6, 5
	var wg sync.WaitGroup
	var mu sync.Mutex
	leased := map[string]int{}
	for w := range writers {
		wg.Go(func() {
			for n := range tasks {
				id := fmt.Sprintf("%d-%d", w, n)
				var agents []string
				for a := range targets {
					agents = append(agents, fmt.Sprintf("%s-%d", id, a))
				}
				err := Create(t.Context(), s, &store.Task{
					ID: id, Created: epoch,
					Requests: []store.Request{request(process.Start, "a", agents...)},
				}, store.AuditRow{At: epoch})
				if err != nil {
					t.Error(err)
				}
				items, err := s.LeaseItems(t.Context(), epoch, at(time.Minute), 3*targets)
				if err != nil {
					t.Error(err)
				}
				for _, it := range items {
					mu.Lock()
					leased[it.ID]++
					mu.Unlock()
					if _, err := s.Finish(t.Context(),
						Reported("", map[string]process.Outcome{it.ID: success()})); err != nil {
						t.Error(err)
					}
				}
				if err := s.TaskItems(t.Context(), id, "", func(store.ItemView) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, it := range lease(t, s, epoch, 1<<20) {
		leased[it.ID]++
	}
	if len(leased) != writers*tasks*targets {
		t.Errorf("%d items were leased, want %d", len(leased), writers*tasks*targets)
	}
	for id, n := range leased {
		if n != 1 {
			t.Errorf("item %s was leased %d times", id, n)
		}
	}
}

// wanted: AcceptItems accepts the items of an agent, with a later deadline, unless they are done, belong to another
// agent or do not exist.
func wanted(t *testing.T, s store.Store) {
	must(t, Create(t.Context(), s, &store.Task{
		ID: "t", App: "app", Created: epoch, HostTimeout: time.Minute,
		Requests: []store.Request{request(process.Start, "a", "x", "y"), request(process.Start, "b", "x")},
	}, store.AuditRow{At: epoch}))
	items := lease(t, s, epoch, 10)
	if deadline, ok, err := s.NextDeadline(t.Context()); err != nil || !ok || !deadline.Equal(at(time.Minute)) {
		t.Errorf("the first deadline is %v %v, error %v", deadline, ok, err)
	}
	open, other, done := items[0], items[1], items[2]
	finish(t, s, done, success())
	until := at(time.Hour)
	for range 2 {
		ended, err := s.AcceptItems(t.Context(), "x", []string{done.ID, open.ID, other.ID, "0000000000000000-9"}, until)
		must(t, err)
		same(t, "must not begin", []string{done.ID, other.ID, "0000000000000000-9"}, ended)
	}
	must(t, s.MarkAccepted(t.Context(), []string{other.ID}, at(time.Second)))
	if deadline, _, err := s.NextDeadline(t.Context()); err != nil || !deadline.Equal(at(time.Minute)) {
		t.Errorf("an earlier end has moved the deadline to %v, error %v", deadline, err)
	}
	finish(t, s, other, success())
	unfinished, err := s.Unfinished(t.Context(), "x")
	must(t, err)
	if len(unfinished) != 1 || unfinished[0].State != task.Accepted || !unfinished[0].Deadline.Equal(until) {
		t.Errorf("what is wanted is %+v", unfinished)
	}
}

// cancelTask cancels a task with items in every state: only items that were never leased end.
func cancelTask(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Restart, "a", "leased", "sent", "accepted", "begun", "done", "never"),
		request(process.Restart, "a", "leased"))
	items := lease(t, s, epoch, 5)
	must(t, s.MarkSent(t.Context(), ids(items[1:2]), at(time.Second)))
	must(t, s.MarkAccepted(t.Context(), ids(items[2:3]), time.Time{}))
	must(t, s.Begin(t.Context(), "begun", map[string]time.Time{items[3].ID: at(time.Minute)}))
	finish(t, s, items[4], success())
	if _, err := s.CancelTask(t.Context(), "t", "another app", epoch); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another app gets %v", err)
	}
	got, err := s.CancelTask(t.Context(), "t", "", epoch)
	must(t, err)
	// The second request for the host "leased" waits for the first one, so it is one operation with it.
	same(t, "cancelled", store.CancelCounts{Ended: 1, Asked: 3, Begun: 1}, got)
	outcome := process.NotBegun()
	for _, v := range views(t, s, "t") {
		switch v.Spelling {
		case "never":
			same(t, "never sent", &outcome, v.Outcome)
		case "done":
			if v.Outcome == nil || v.Outcome.Fault != process.None {
				t.Errorf("the finished item has the outcome %+v", v.Outcome)
			}
		default:
			if v.Done {
				t.Errorf("%s is done: %+v", v.Spelling, v.Outcome)
			}
			same(t, v.Spelling+" is being cancelled", v.Spelling != "begun", v.Cancelling)
		}
	}
	again, err := s.CancelTask(t.Context(), "t", "", epoch)
	must(t, err)
	same(t, "cancelled again", store.CancelCounts{Asked: 3, Begun: 1}, again)
	asked, next, err := s.LeaseCancels(t.Context(), epoch, at(time.Second), 10)
	must(t, err)
	same(t, "to tell", 3, len(asked))
	if !next.Equal(at(time.Second)) {
		t.Errorf("the next attempt is at %v", next)
	}
	must(t, s.CancelHeard(t.Context(), ids(asked[:2])))
	asked, _, err = s.LeaseCancels(t.Context(), at(time.Second), at(time.Minute), 10)
	must(t, err)
	same(t, "to tell again", 1, len(asked))
	must(t, s.CancelHeard(t.Context(), ids(asked)))
	asked, next, err = s.LeaseCancels(t.Context(), at(time.Hour), at(2*time.Hour), 10)
	must(t, err)
	if len(asked) != 0 || !next.IsZero() {
		t.Errorf("agents that know are told again: %v at %v", brief(asked), next)
	}
}

// endWaiting: of an agent, what waits for older operations and was created in time ends; what was sent does not.
func endWaiting(t *testing.T, s store.Store) {
	create(t, s, "1", request(process.Start, "a", "x", "y"))
	create(t, s, "2", request(process.Reload, "a", "x", "y"), request(process.Query, "a", "x"))
	waiting := func(want ...string) {
		t.Helper()
		agents, err := s.WaitingAgents(t.Context())
		must(t, err)
		same(t, "agents", want, slices.Sorted(slices.Values(agents)))
	}
	sent := lease(t, s, epoch, 10)
	same(t, "sent", []string{"start x:a", "start y:a"}, brief(sent))
	waiting("x", "y")
	gone := process.Outcome{Fault: process.AgentUnavailable, Text: "gone"}
	end := func(agent string, created time.Time, want ...string) {
		t.Helper()
		tasks, err := s.EndWaiting(t.Context(), agent, created, gone)
		must(t, err)
		same(t, "tasks of "+agent, want, tasks)
	}
	end("x", epoch.Add(-time.Second))
	end("z", at(time.Hour))
	waiting("x", "y")
	end("x", epoch, "2")
	waiting("y")
	finish(t, s, sent[0], success())
	same(t, "due afterwards", []string{}, brief(lease(t, s, epoch, 10)))
	finish(t, s, sent[1], success())
	same(t, "due of the other agent", []string{"reload y:a"}, brief(lease(t, s, epoch, 10)))
	end("y", at(time.Hour))
}

// cancelledStay: nothing makes a cancelled item due again, and an agent that asks must not begin it.
func cancelledStay(t *testing.T, s store.Store) {
	create(t, s, "t", request(process.Stop, "a", "x", "y"))
	create(t, s, "later", request(process.Stop, "a", "x"))
	items := lease(t, s, epoch, 10)
	must(t, s.MarkSent(t.Context(), ids(items[1:]), at(time.Second)))
	_, err := s.CancelTask(t.Context(), "t", "", epoch)
	must(t, err)
	// The attempts under way end.
	must(t, s.MarkSent(t.Context(), ids(items), at(time.Second)))
	must(t, s.Postpone(t.Context(), ids(items), at(time.Second)))
	if waits, err := s.Pass(t.Context()); err != nil || !waits {
		t.Errorf("the later stop waits: %v %v", waits, err)
	}
	same(t, "sent again", []string{}, brief(lease(t, s, at(time.Minute), 10)))
	ended, err := s.AcceptItems(t.Context(), "x", ids(items[:1]), at(time.Minute))
	must(t, err)
	same(t, "not wanted", ids(items[:1]), ended)
	unfinished, err := s.Unfinished(t.Context(), "y")
	must(t, err)
	same(t, "unfinished", []string{}, brief(unfinished))
	// The agents answer, and the next operation goes on.
	for _, it := range items {
		finish(t, s, it, process.NotBegun())
	}
	same(t, "due", []string{"stop x:a"}, brief(lease(t, s, at(time.Minute), 10)))
	overdue, err := s.Overdue(t.Context(), at(time.Hour), 10)
	must(t, err)
	same(t, "overdue", 1, len(overdue))
}

// ItemLife takes single items from the lease to the outcome, many at the same time as agents would. It measures the
// cost of an item when commits are shared. together is the number of concurrent items for each processor.
func ItemLife(b *testing.B, s store.Store, together int) {
	b.Helper()
	const n = 10_000 // in a task
	agents := make([]string, n)
	for i := range agents {
		agents[i] = fmt.Sprintf("UA%054d", i)
	}
	var items []store.Item
	for i := range b.N/n + 1 {
		name := fmt.Sprint(i)
		create(b, s, name, request(process.Start, name, agents...))
		items = append(items, lease(b, s, epoch, n)...)
	}
	var next atomic.Int64
	b.SetParallelism(together)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			it := items[next.Add(1)-1]
			must(b, s.MarkAccepted(b.Context(), []string{it.ID}, time.Time{}))
			must(b, s.Begin(b.Context(), it.Agent, map[string]time.Time{it.ID: at(time.Hour)}))
			_, err := s.Finish(b.Context(),
				Reported(it.Agent, map[string]process.Outcome{it.ID: {Text: process.Success}}))
			must(b, err)
		}
	})
}

// Rollouts measures what a rollout over many hosts costs: its creation, a look at it, a change of all hosts, and a look
// at their processes.
func Rollouts(b *testing.B, s store.Store) {
	b.Helper()
	const n = 10_000
	hosts, agents := make([]rollout.Host, n), make([]string, n)
	for i := range hosts {
		agents[i] = fmt.Sprintf("UA%054d", i)
		hosts[i] = rollout.Host{Agent: agents[i], Name: fmt.Sprint("0:10.0.", i/256, ".", i%256), Steps: []int{0}}
	}
	web := process.ID{Namespace: "shop", Name: "web"}
	for _, agent := range agents {
		must(b, s.PutObserved(b.Context(), store.ReportMark{}, []store.Observed{{
			Agent: agent, Process: web, Status: process.Status{Known: true, State: process.StateRunning}, Spec: &process.Spec{},
		}}, nil))
	}
	made := 0
	create := func(b *testing.B) string {
		b.Helper()
		made++
		r := newRollout(fmt.Sprint("ro-", made), fmt.Sprint("web", made))
		r.Steps[0].Process.Name = fmt.Sprint("web", made)
		r.Rollout, r.Total = rollout.New(r.Plan, time.Time{}, hosts), n
		must(b, createRollout(b.Context(), s, r, store.AuditRow{}))
		return r.ID
	}
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			create(b)
		}
	})
	id := create(b)
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			_, err := s.GetRollout(b.Context(), id, "")
			must(b, err)
		}
	})
	b.Run("change", func(b *testing.B) {
		for b.Loop() {
			_, err := s.ChangeRollout(b.Context(), id, "", store.RolloutChange{}, func(r *rollout.Rollout) error {
				for i := range r.Hosts {
					r.Hosts[i].Batch++
				}
				return nil
			})
			must(b, err)
		}
	})
	b.Run("processes", func(b *testing.B) {
		for b.Loop() {
			must(b, s.GetObserved(b.Context(), web, agents, func(store.Observed) error { return nil }))
		}
	})
}
