//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"testing"
	"time"

	"drover/internal/server/store"
)

// fullReceiver is a receiver with every field set.
func fullReceiver() store.Receiver {
	return store.Receiver{
		Name: "ops", URL: "https://alarms.example/hook?x=\"1\"", Secret: "s3cret", Namespaces: []string{"shop*", "a'b"}, Selector: "role=web",
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
	must(t, s.PutDelivery(t.Context(), "ops", epoch, d))
	got, err := s.GetReceiver(t.Context(), "ops")
	must(t, err)
	same(t, "receiver and delivery", store.Subscription{Receiver: fullReceiver(), Delivery: d}, got)

	must(t, s.PutDelivery(t.Context(), "nobody", epoch, d))
	must(t, s.DeleteReceiver(t.Context(), "ops"))
	again := fullReceiver()
	again.Created = at(time.Hour)
	must(t, s.CreateReceiver(t.Context(), again, 20))
	must(t, s.PutDelivery(t.Context(), "ops", epoch, d))
	got, err = s.GetReceiver(t.Context(), "ops")
	must(t, err)
	same(t, "one made anew under the name", store.Delivery{Cursor: 20}, got.Delivery)
}
