package broker_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"drover/internal/fabric"
	"drover/internal/test/harness"
)

// TestARefusalIsToldOnce: an agent that was removed tries for ever, and must not fill its log.
func TestARefusalIsToldOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := issue(t, b)
	log := &harness.Log{}
	up := make(chan struct{}, 1)
	c, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: []string{b.URL()}, Identity: id.Identity,
		Log:         slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnConnected: func() { up <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	await(t, "the agent to connect", up)
	if err := b.Revoke(id.key); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(patience)
	for strings.Count(log.String(), "rejected the credentials again") < 2 {
		select {
		case <-deadline:
			t.Fatal("it does not try again")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if n := strings.Count(log.String(), "rejected the credentials:"); n != 1 {
		t.Errorf("it was warned of %d times", n)
	}
	if err := b.Restore(id.key); err != nil {
		t.Fatal(err)
	}
	await(t, "the agent to be let in again", up)
}
