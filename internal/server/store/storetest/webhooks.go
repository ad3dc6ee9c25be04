//nolint:thelper // these are the tests themselves, and fail at their own lines
package storetest

import (
	"errors"
	"testing"
	"time"

	"drover/internal/server/store"
)

// fullWebhook is a webhook with every field set.
func fullWebhook() store.Webhook {
	return store.Webhook{
		Name: "ops", URL: "https://alarms.example/hook?x=\"1\"", Secret: "s3cret", Namespaces: []string{"shop*", "a'b"}, Selector: "role=web",
		Local: true, Note: "for tests",
		Created: epoch, Changed: at(time.Second),
	}
}

func webhooks(t *testing.T, s store.Store) {
	list, err := s.ListWebhooks(t.Context())
	must(t, err)
	if len(list) != 0 {
		t.Errorf("an empty store lists %v", list)
	}
	if _, err := s.GetWebhook(t.Context(), "ops"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown webhook: %v", err)
	}
	if err := s.DeleteWebhook(t.Context(), "ops"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown webhook deleted: %v", err)
	}
	must(t, s.CreateWebhook(t.Context(), fullWebhook(), 7))
	must(t, s.CreateWebhook(t.Context(), store.Webhook{Name: "bare"}, 0))
	if err := s.CreateWebhook(t.Context(), store.Webhook{Name: "ops"}, 9); !errors.Is(err, store.ErrExists) {
		t.Errorf("a taken name: %v", err)
	}
	full := store.Subscription{Webhook: fullWebhook(), Delivery: store.Delivery{Cursor: 7}}
	got, err := s.GetWebhook(t.Context(), "ops")
	must(t, err)
	same(t, "webhook", full, got)
	list, err = s.ListWebhooks(t.Context())
	must(t, err)
	same(t, "all webhooks", []store.Subscription{{Webhook: store.Webhook{Name: "bare"}}, full}, list)
	must(t, s.DeleteWebhook(t.Context(), "bare"))
	list, err = s.ListWebhooks(t.Context())
	must(t, err)
	same(t, "webhooks that are left", []store.Subscription{full}, list)
}

func webhooksChanged(t *testing.T, s store.Store) {
	nothing := func(*store.Webhook) error { return nil }
	if _, err := s.ChangeWebhook(t.Context(), "ops", nothing); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown webhook: %v", err)
	}
	must(t, s.CreateWebhook(t.Context(), fullWebhook(), 7))
	no := errors.New("no")
	if _, err := s.ChangeWebhook(t.Context(), "ops", func(w *store.Webhook) error {
		w.URL = "lost"
		return no
	}); !errors.Is(err, no) {
		t.Errorf("the change's own error became %v", err)
	}
	want := store.Subscription{
		Webhook:  store.Webhook{Name: "ops", Created: epoch, URL: "http://other", Changed: at(time.Hour)},
		Delivery: store.Delivery{Cursor: 7},
	}
	got, err := s.ChangeWebhook(t.Context(), "ops", func(w *store.Webhook) error {
		same(t, "webhook before the change", fullWebhook(), *w)
		*w = store.Webhook{Name: "b", Created: at(time.Hour), URL: "http://other", Changed: at(time.Hour)}
		return nil
	})
	must(t, err)
	same(t, "webhook as returned", want, got)
	got, err = s.GetWebhook(t.Context(), "ops")
	must(t, err)
	same(t, "webhook as stored", want, got)
}

func deliveries(t *testing.T, s store.Store) {
	must(t, s.CreateWebhook(t.Context(), fullWebhook(), 7))
	d := store.Delivery{
		Cursor: 12, Failures: 3, Failing: at(time.Minute), Error: "answered 502", Next: at(time.Hour),
		Delivered: at(time.Second),
	}
	must(t, s.PutDelivery(t.Context(), "ops", epoch, d))
	got, err := s.GetWebhook(t.Context(), "ops")
	must(t, err)
	same(t, "webhook and delivery", store.Subscription{Webhook: fullWebhook(), Delivery: d}, got)

	must(t, s.PutDelivery(t.Context(), "nobody", epoch, d))
	must(t, s.DeleteWebhook(t.Context(), "ops"))
	again := fullWebhook()
	again.Created = at(time.Hour)
	must(t, s.CreateWebhook(t.Context(), again, 20))
	must(t, s.PutDelivery(t.Context(), "ops", epoch, d))
	got, err = s.GetWebhook(t.Context(), "ops")
	must(t, err)
	same(t, "one made anew under the name", store.Delivery{Cursor: 20}, got.Delivery)
}
