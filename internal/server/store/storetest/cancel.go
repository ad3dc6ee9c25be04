//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"testing"
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

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
	same(t, "cancelled", store.Cancelled{Ended: 1, Asked: 3, Begun: 1}, got)
	outcome := process.NotBegun()
	for _, v := range views(t, s, "t") {
		switch v.Asked {
		case "never":
			same(t, "never sent", &outcome, v.Outcome)
		case "done":
			if v.Outcome == nil || v.Outcome.Fault != process.None {
				t.Errorf("the finished item has the outcome %+v", v.Outcome)
			}
		default:
			if v.Done {
				t.Errorf("%s is done: %+v", v.Asked, v.Outcome)
			}
		}
	}
	again, err := s.CancelTask(t.Context(), "t", "", epoch)
	must(t, err)
	same(t, "cancelled again", store.Cancelled{Begun: 1}, again)
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
	ended, err := s.Wanted(t.Context(), "x", ids(items[:1]), at(time.Minute))
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
