package receiver

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqlite"
)

// TestSecretsOfReceiversAreSealed: who has the database, and not the keys of the servers, cannot sign alarms.
func TestSecretsOfReceiversAreSealed(t *testing.T) {
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
	plain := store.Receiver{Name: "old", URL: "https://example.com", Secret: "from before", Created: now}
	if err := db.CreateReceiver(ctx, plain, 0); err != nil {
		t.Fatal(err)
	}
	if err := h.CreateReceiver(ctx, store.Receiver{
		Name: "new", URL: "https://example.com", Secret: "planted",
		Created: now,
	}, 0); err != nil {
		t.Fatal(err)
	}
	if s, err := h.ChangeReceiver(ctx, "old", func(w *store.Receiver) error {
		w.Note = "changed " + w.Secret
		return nil
	}); err != nil ||
		s.Receiver.Secret != "from before" || s.Receiver.Note != "changed from before" {
		t.Errorf("changed is %+v, %v", s.Receiver, err)
	}
	list, err := h.ListReceivers(ctx)
	if err != nil || len(list) != 2 || list[0].Receiver.Secret != "planted" || list[1].Receiver.Secret != "from before" {
		t.Errorf("there are %+v, %v", list, err)
	}
	stored, err := db.ListReceivers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stored {
		if !strings.HasPrefix(s.Receiver.Secret, sealMark) {
			t.Errorf("the database holds %q", s.Receiver.Secret)
		}
	}
	other, err := NewSealed(db, []byte("the key of other fleet, 32 byte."))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := other.GetReceiver(ctx, "new"); err != nil || s.Receiver.Secret == "planted" || s.Receiver.Secret == "" {
		t.Errorf("another fleet reads %q, %v", s.Receiver.Secret, err)
	}
	moved := stored[0].Receiver
	moved.Name = "old"
	if got := h.open(moved); got.Secret == "planted" {
		t.Error("a secret counts under another name")
	}
}
