package webhook

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

// TestSecretsOfWebhooksAreSealed: who has the database, and not the keys of the servers, cannot sign alarms.
func TestSecretsOfWebhooksAreSealed(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	h, err := NewSealed(db, []byte("the key of this fleet, 32 bytes."))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	plain := store.Webhook{Name: "old", URL: "https://example.com", Secret: "from before", Created: now}
	if err := db.CreateWebhook(ctx, plain, 0); err != nil {
		t.Fatal(err)
	}
	if err := h.CreateWebhook(ctx, store.Webhook{
		Name: "new", URL: "https://example.com", Secret: "planted",
		Created: now,
	}, 0); err != nil {
		t.Fatal(err)
	}
	if s, err := h.ChangeWebhook(ctx, "old", func(w *store.Webhook) error {
		w.Note = "changed " + w.Secret
		return nil
	}); err != nil ||
		s.Webhook.Secret != "from before" || s.Webhook.Note != "changed from before" {
		t.Errorf("changed is %+v, %v", s.Webhook, err)
	}
	list, err := h.ListWebhooks(ctx)
	if err != nil || len(list) != 2 || list[0].Webhook.Secret != "planted" || list[1].Webhook.Secret != "from before" {
		t.Errorf("there are %+v, %v", list, err)
	}
	stored, err := db.ListWebhooks(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stored {
		if !strings.HasPrefix(s.Webhook.Secret, sealMark) {
			t.Errorf("the database holds %q", s.Webhook.Secret)
		}
	}
	other, err := NewSealed(db, []byte("the key of other fleet, 32 byte."))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := other.GetWebhook(ctx, "new"); err != nil || s.Webhook.Secret == "planted" || s.Webhook.Secret == "" {
		t.Errorf("another fleet reads %q, %v", s.Webhook.Secret, err)
	}
	moved := stored[0].Webhook
	moved.Name = "old"
	if got := h.open(moved); got.Secret == "planted" {
		t.Error("a secret counts under another name")
	}
}
