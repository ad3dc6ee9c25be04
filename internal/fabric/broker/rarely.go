package broker

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	repeatAfter = 10 * time.Minute
	maxTold     = 256 // texts that are remembered; beyond that all are forgotten
)

// rarely is a handler that logs the same text, apart from numbers, once in repeatAfter: a rejected relay retries for
// ever.
type rarely struct {
	slog.Handler
	told *told
}

// told are texts with the time of their last line.
type told struct {
	mu sync.Mutex
	at map[string]time.Time
}

func newRarely(h slog.Handler) rarely { return rarely{h, &told{at: map[string]time.Time{}}} }

// Handle implements slog.Handler.
func (r rarely) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn && r.told.lately(textOf(record), record.Time) {
		return nil
	}
	return r.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (r rarely) WithAttrs(attrs []slog.Attr) slog.Handler {
	return rarely{r.Handler.WithAttrs(attrs), r.told}
}

// WithGroup implements slog.Handler.
func (r rarely) WithGroup(name string) slog.Handler {
	return rarely{r.Handler.WithGroup(name), r.told}
}

// textOf is the text of a record without its numbers: the numbers of connections differ each time.
func textOf(record slog.Record) string {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.Value.String()
		return true
	})
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// lately reports whether a text was logged a short while ago, and remembers that it is logged now.
func (t *told) lately(text string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.at[text]; ok && now.Sub(at) < repeatAfter {
		return true
	}
	if len(t.at) >= maxTold {
		clear(t.at)
	}
	t.at[text] = now
	return false
}
