//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// agreesWithMachine brings an item into every state and gives it every event. The store must then hold the result of
// task.Next.
func agreesWithMachine(t *testing.T, s store.Store) {
	way := map[task.State][]task.Event{
		task.Pending:  {},
		task.Sent:     {task.Unheard{}},
		task.Accepted: {task.Unheard{}, task.Received{}},
		task.Begun:    {task.Unheard{}, task.Received{}, task.Began{Limit: time.Hour}},
		task.Done:     {task.Finished{Outcome: success()}},
	}
	for _, state := range task.States() {
		for _, event := range task.Events() {
			name := state.String() + ", " + event.String()
			create(t, s, name, request(process.Start, name, "x"))
			it := leaseOne(t, s, epoch)
			m := task.New(epoch, 0)
			m.Due = epoch.Add(time.Minute) // the lease
			for _, e := range way[state] {
				m = step(t, s, it, m, e)
			}
			if m.State != state {
				t.Fatalf("the way to %v leads to %v", state, m.State)
			}
			m = step(t, s, it, m, event)
			holds(t, s, name, m)
			finish(t, s, it, success()) // so that the next item is alone
		}
	}
}

// step calls the store as the engine does when the event happens to an item; m is the item before the event.
func step(t *testing.T, s store.Store, it store.Item, m task.Item, e task.Event) task.Item {
	t.Helper()
	now := epoch.Add(time.Second)
	if _, ok := e.(task.Overdue); ok {
		now = m.Deadline
	}
	next := task.Next(m, e, now)
	switch e := e.(type) {
	case task.Unheard:
		must(t, s.MarkSent(t.Context(), []string{it.ID}, next.Due))
	case task.Absent:
		must(t, s.Postpone(t.Context(), []string{it.ID}, next.Due))
	case task.Received:
		must(t, s.MarkAccepted(t.Context(), []string{it.ID}, e.Until))
	case task.Began:
		must(t, s.Begin(t.Context(), it.Agent, map[string]time.Time{it.ID: task.Next(task.Item{}, e, now).Deadline}))
	case task.Finished:
		finish(t, s, it, e.Outcome)
	case task.Refused, task.Unreachable, task.Cancelled, task.Overdue:
		if m.State == task.Done || next.State != task.Done {
			break
		}
		it.State = m.State
		if _, err := s.Conclude(t.Context(), []store.DecidedOutcome{{Item: it, Outcome: *next.Outcome}}); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("the suite does not know event %T", e)
	}
	return next
}

// holds compares the only unfinished item of the store, or the finished item of the task, with the expected item.
func holds(t *testing.T, s store.Store, name string, want task.Item) {
	t.Helper()
	due, isDue, err := s.NextDue(t.Context())
	must(t, err)
	if isDue != !want.Due.IsZero() {
		t.Errorf("%s: it will be sent: %v, want %v", name, isDue, !want.Due.IsZero())
	}
	if isDue && !due.Equal(want.Due) {
		t.Errorf("%s: it is due at %v, want %v", name, due, want.Due)
	}
	deadline, isLimited, err := s.NextDeadline(t.Context())
	must(t, err)
	if isLimited != (want.State != task.Done) || isLimited && !deadline.Equal(want.Deadline) {
		t.Errorf("%s: its deadline is %v %v, want %v", name, deadline, isLimited, want.Deadline)
	}
	same(t, name, want.Outcome, views(t, s, name)[0].Outcome)
	got, err := s.Unfinished(t.Context(), "x")
	must(t, err)
	switch {
	case want.State == task.Pending || want.State == task.Done:
		same(t, name, []string{}, brief(got))
	case len(got) != 1:
		t.Errorf("%s: %d items are unfinished", name, len(got))
	case got[0].State != want.State || got[0].Attempts != want.Attempts:
		t.Errorf("%s: it is %v after %d attempts, want %v after %d", name, got[0].State, got[0].Attempts, want.State,
			want.Attempts)
	}
}
