package broker_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"drover/internal/fabric"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// TestARefusalIsToldOnce: an agent that was removed tries for ever, and must not fill its log.
func TestARefusalIsToldOnce(t *testing.T) {
	b := start(t)
	id := identity(t, b)
	log := &lines{}
	up := make(chan struct{}, 1)
	c, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: []string{b.URL()}, Identity: id.Identity, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
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
	for log.count("refused the credentials again") < 2 {
		select {
		case <-deadline:
			t.Fatal("it does not try again")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if n := log.count("refused the credentials:"); n != 1 {
		t.Errorf("it was warned of %d times", n)
	}
	if err := b.Restore(id.key); err != nil {
		t.Fatal(err)
	}
	await(t, "the agent to be let in again", up)
}
