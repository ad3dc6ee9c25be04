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

// fullReceiver is a receiver with every field set.
func fullReceiver() store.Receiver {
	return store.Receiver{
		Name: "ops", Kind: store.KindEmail, URL: "https://alarms.example/hook?x=\"1\"", Secret: "s3cret",
		Match: store.Match{
			Namespaces: []string{"shop*", "a'b"}, Selector: "role=web", Labels: "tier=front",
			Severities: []string{"critical"}, Kinds: []process.EventKind{process.EventGivenUp},
		},
		Mail:    store.Mail{From: "a@b.example", To: []string{"c@d.example"}, User: "u"},
		Subject: "{{.Count}} alarms", Body: "\"'",
		Local: true, Note: "for tests",
		Created: epoch, Changed: at(time.Second),
	}
}

func receivers(t *testing.T, s store.Store) {
	list, err := s.ListReceivers(t.Context())
	must(t, err)
	if len(list) != 0 {
		t.Errorf("an empty store lists %v", list)
	}
	if _, err := s.GetReceiver(t.Context(), "ops"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown receiver: %v", err)
	}
	if err := s.DeleteReceiver(t.Context(), "ops"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown receiver deleted: %v", err)
	}
	must(t, s.CreateReceiver(t.Context(), fullReceiver(), 7))
	must(t, s.CreateReceiver(t.Context(), store.Receiver{Name: "bare"}, 0))
	if err := s.CreateReceiver(t.Context(), store.Receiver{Name: "ops"}, 9); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken name: %v", err)
	}
	full := store.Subscription{Receiver: fullReceiver(), Delivery: store.Delivery{Cursor: 7}}
	got, err := s.GetReceiver(t.Context(), "ops")
	must(t, err)
	same(t, "receiver", full, got)
	list, err = s.ListReceivers(t.Context())
	must(t, err)
	same(t, "all receivers", []store.Subscription{{Receiver: store.Receiver{Name: "bare"}}, full}, list)
	must(t, s.DeleteReceiver(t.Context(), "bare"))
	list, err = s.ListReceivers(t.Context())
	must(t, err)
	same(t, "receivers that are left", []store.Subscription{full}, list)
}

func receiversChanged(t *testing.T, s store.Store) {
	nothing := func(*store.Receiver) error { return nil }
	if _, err := s.ChangeReceiver(t.Context(), "ops", nothing); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown receiver: %v", err)
	}
	must(t, s.CreateReceiver(t.Context(), fullReceiver(), 7))
	no := errors.New("no")
	if _, err := s.ChangeReceiver(t.Context(), "ops", func(w *store.Receiver) error {
		w.URL = "lost"
		return no
	}); !errors.Is(err, no) {
		t.Errorf("the change's own error became %v", err)
	}
	want := store.Subscription{
		Receiver: store.Receiver{Name: "ops", Created: epoch, URL: "http://other", Changed: at(time.Hour)},
		Delivery: store.Delivery{Cursor: 7},
	}
	got, err := s.ChangeReceiver(t.Context(), "ops", func(w *store.Receiver) error {
		same(t, "receiver before the change", fullReceiver(), *w)
		*w = store.Receiver{Name: "b", Created: at(time.Hour), URL: "http://other", Changed: at(time.Hour)}
		return nil
	})
	must(t, err)
	same(t, "receiver as returned", want, got)
	got, err = s.GetReceiver(t.Context(), "ops")
	must(t, err)
	same(t, "receiver as stored", want, got)
}

func deliveries(t *testing.T, s store.Store) {
	must(t, s.CreateReceiver(t.Context(), fullReceiver(), 7))
	d := store.Delivery{
		Cursor: 12, Failures: 3, Failing: at(time.Minute), Error: "answered 502", Next: at(time.Hour),
		Delivered: at(time.Second),
	}
	must(t, s.PutDelivery(t.Context(), "ops", epoch, d, store.Withheld{}))
	got, err := s.GetReceiver(t.Context(), "ops")
	must(t, err)
	same(t, "receiver and delivery", store.Subscription{Receiver: fullReceiver(), Delivery: d}, got)

	must(t, s.PutDelivery(t.Context(), "nobody", epoch, d, store.Withheld{}))
	must(t, s.DeleteReceiver(t.Context(), "ops"))
	again := fullReceiver()
	again.Created = at(time.Hour)
	must(t, s.CreateReceiver(t.Context(), again, 20))
	must(t, s.PutDelivery(t.Context(), "ops", epoch, d, store.Withheld{}))
	got, err = s.GetReceiver(t.Context(), "ops")
	must(t, err)
	same(t, "one made anew under the name", store.Delivery{Cursor: 20}, got.Delivery)
}

// withheld is an alarm of the process p<n> on host A.
func withheld(n int64) store.StoredEvent {
	return store.StoredEvent{
		Cursor: n, Agent: "A", Received: at(time.Duration(n) * time.Second), Event: process.Event{
			Kind: process.EventGivenUp, Process: process.ID{Namespace: "ns", Name: fmt.Sprint("p", n)}, At: n,
			Cause: process.Cause{ID: process.CauseExited, Text: "it's \"over\""},
		},
	}
}

func withheldAlarms(t *testing.T, s store.Store) {
	must(t, s.CreateReceiver(t.Context(), fullReceiver(), 7))
	silence := fullSilence("x")
	must(t, s.CreateSilence(t.Context(), silence))
	first, second := withheld(8), withheld(9)
	must(t, s.PutDelivery(t.Context(), "ops", epoch, store.Delivery{Cursor: 9}, store.Withheld{
		Added: []store.StoredEvent{second, first}, Counts: map[string]int64{"x": 5, "gone": 1},
	}))
	list := func(want ...store.StoredEvent) {
		t.Helper()
		got, err := s.ListWithheld(t.Context(), "ops")
		must(t, err)
		same(t, "withheld alarms", want, got)
	}
	list(first, second)
	again := second // of the same process and kind
	again.Cursor, again.Event.Attempt = 10, 3
	must(t, s.PutDelivery(t.Context(), "ops", epoch, store.Delivery{Cursor: 10}, store.Withheld{
		Added: []store.StoredEvent{again}, Dropped: []store.AlarmKey{first.Key()}, Counts: map[string]int64{"x": 1},
	}))
	list(again)
	other := again // of the same process and kind, about a schedule
	other.Cursor, other.Event.Schedule = 11, "nightly"
	must(t, s.PutDelivery(t.Context(), "ops", epoch, store.Delivery{Cursor: 11}, store.Withheld{
		Added: []store.StoredEvent{other},
	}))
	list(again, other)
	must(t, s.PutDelivery(t.Context(), "ops", epoch, store.Delivery{Cursor: 12}, store.Withheld{
		Dropped: []store.AlarmKey{other.Key()},
	}))
	list(again)
	must(t, s.PutDelivery(t.Context(), "ops", at(time.Hour), store.Delivery{}, store.Withheld{
		Dropped: []store.AlarmKey{again.Key()}, Counts: map[string]int64{"x": 1},
	}))
	list(again) // the receiver of that time is gone
	silences, err := s.ListSilences(t.Context(), epoch)
	must(t, err)
	silence.Withheld = 6
	same(t, "silences", []store.Silence{silence}, silences)
	must(t, s.DeleteReceiver(t.Context(), "ops"))
	must(t, s.CreateReceiver(t.Context(), fullReceiver(), 7))
	list()
}

// fullSilence is a silence with every field set, of the first hour.
func fullSilence(id string) store.Silence {
	return store.Silence{
		ID: id, Processes: []string{"shop/*", "a/'b"}, Hosts: []string{"web-*"}, Selector: "role=web", Labels: "tier=front", From: epoch,
		Until: at(time.Hour), Message: "it's \"planned\"", App: "shop", User: "anna", Created: at(-time.Minute),
	}
}

func silences(t *testing.T, s store.Store) {
	first, later := fullSilence("b"), fullSilence("a")
	later.From, later.Until = at(time.Minute), at(2*time.Hour)
	must(t, s.CreateSilence(t.Context(), later))
	must(t, s.CreateSilence(t.Context(), first))
	if err := s.CreateSilence(t.Context(), first); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken id: %v", err)
	}
	list := func(after time.Duration, want ...store.Silence) {
		t.Helper()
		got, err := s.ListSilences(t.Context(), at(after))
		must(t, err)
		same(t, "silences", want, got)
	}
	list(0, first, later)
	list(time.Hour, later)
	if _, err := s.RemoveSilence(t.Context(), "none", at(0)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
	first.Removed = at(time.Minute)
	for _, when := range []time.Duration{time.Minute, 2 * time.Minute, 2 * time.Hour} { // the first one counts
		got, err := s.RemoveSilence(t.Context(), "b", at(when))
		must(t, err)
		same(t, "removed", first, got)
	}
	got, err := s.RemoveSilence(t.Context(), "a", at(3*time.Hour)) // it is over
	must(t, err)
	same(t, "ended", later, got)
	list(time.Minute, later)
	for _, left := range []int{1, 0} {
		n, err := s.PruneSilences(t.Context(), at(time.Hour), 10)
		must(t, err)
		same(t, "pruned", left, n)
	}
	list(-time.Hour, later)
}

func breakers(t *testing.T, s store.Store) {
	b := store.Breaker{
		Process: process.ID{Namespace: "shop", Name: "web"}, Revision: 7, Cause: process.CauseExitStatus, Failed: 6, Hosts: 10,
		Agent: "A", Opened: at(time.Minute), Until: at(time.Hour),
	}
	list := func(want ...store.Breaker) {
		t.Helper()
		got, err := s.ListBreakers(t.Context())
		must(t, err)
		same(t, "breakers", want, got)
	}
	list()
	if _, err := s.CloseBreaker(t.Context(), b.Process, at(0), ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("none to close: %v", err)
	}
	must(t, s.OpenBreaker(t.Context(), b, time.Time{}))
	for _, instead := range []time.Time{{}, at(time.Hour)} {
		if err := s.OpenBreaker(t.Context(), b, instead); !errors.Is(err, store.ErrExists) {
			t.Errorf("opened twice: %v", err)
		}
	}
	first := b
	b.Revision, b.Opened = 8, at(90*time.Second)
	must(t, s.OpenBreaker(t.Context(), b, first.Opened))
	list(b)
	must(t, s.BreakerTold(t.Context(), b.Process, b.Opened))
	list(b) // an open breaker has no closing to tell
	b.Closed, b.ClosedBy = at(2*time.Minute), "anna"
	for _, when := range []time.Duration{2 * time.Minute, 3 * time.Minute} { // the first one counts
		got, err := s.CloseBreaker(t.Context(), b.Process, at(when), "anna")
		must(t, err)
		same(t, "closed", b, got)
	}
	must(t, s.BreakerTold(t.Context(), b.Process, at(0)))
	list(b)
	must(t, s.BreakerTold(t.Context(), b.Process, b.Opened))
	b.Told = true
	list(b)
	again := store.Breaker{Process: b.Process, Cause: process.CauseOOM, Opened: at(time.Hour), Until: at(2 * time.Hour), Agent: "B"}
	must(t, s.OpenBreaker(t.Context(), again, time.Time{}))
	list(again)
}
