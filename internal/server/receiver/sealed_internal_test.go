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

const (
	firstKey  = "the 1st key of this fleet, 32 B."
	secondKey = "the 2nd key of this fleet, 32 B."
	otherKey  = "the key of other fleet, 32 byte."
)

// keys are those of a server, which sealing uses the first of.
type keys []string

func (k *keys) secrets() ([][]byte, error) {
	var all [][]byte
	for _, key := range *k {
		all = append(all, []byte(key))
	}
	return all, nil
}

// TestSecretsOfReceiversAreSealed: who has the database, and not the keys of the servers, cannot sign alarms. The keys
// are replaced, and a server that has only the former one loses no secret.
func TestSecretsOfReceiversAreSealed(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "drover.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	held := &keys{firstKey}
	h := NewSealed(db, held.secrets)
	for _, name := range []string{"one", "two"} {
		w := store.Receiver{Name: name, URL: "https://example.com", Secret: "planted in " + name, Created: time.Now()}
		if err := h.CreateReceiver(ctx, w, 0); err != nil {
			t.Fatal(err)
		}
	}
	reads := func(h *Sealed) bool {
		t.Helper()
		list, err := h.ListReceivers(ctx)
		if err != nil || len(list) != 2 {
			t.Fatalf("there are %+v, %v", list, err)
		}
		return list[0].Receiver.Secret == "planted in one" && list[1].Receiver.Secret == "planted in two"
	}
	stored := func() []store.Subscription {
		t.Helper()
		list, err := db.ListReceivers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if strings.Contains(s.Receiver.Secret, "planted") {
				t.Errorf("the database holds %q", s.Receiver.Secret)
			}
		}
		return list
	}
	note := func(w *store.Receiver) error {
		w.Note = "changed"
		return nil
	}
	other := NewSealed(db, (&keys{otherKey}).secrets)
	if s, err := other.GetReceiver(ctx, "one"); err != nil || s.Receiver.Secret == "" || reads(other) || !reads(h) {
		t.Errorf("another fleet reads %q, %v", s.Receiver.Secret, err)
	}
	if s, err := other.ChangeReceiver(ctx, "one", note); err != nil || s.Receiver.Note != "changed" || !reads(h) {
		t.Errorf("a change without the key: %+v, %v", s.Receiver, err)
	}
	moved := stored()[0].Receiver
	moved.Name = "two"
	if got, _ := h.open(moved); got.Secret == "planted in one" {
		t.Error("a secret counts under another name")
	}

	behind := NewSealed(db, (&keys{firstKey}).secrets)
	*held = keys{secondKey, firstKey}
	if _, err := h.ChangeReceiver(ctx, "one", note); err != nil || !reads(h) {
		t.Errorf("a change with the second key: %v", err)
	}
	if err := behind.Renew(ctx); err != nil || !reads(h) || reads(behind) {
		t.Errorf("a server without the second key seals anew: %v", err)
	}
	if err := h.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	before := stored()
	if err := h.Renew(ctx); err != nil || stored()[0].Receiver.Secret != before[0].Receiver.Secret {
		t.Errorf("what the present key has sealed is sealed again, %v", err)
	}
	*held = keys{secondKey}
	if !reads(h) {
		t.Error("a secret is lost with the former key")
	}
}
