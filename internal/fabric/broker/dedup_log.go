package broker

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	repeatAfter    = 10 * time.Minute
	maxLoggedTexts = 256 // remembered texts; beyond that all are forgotten
)

// dedupLog is a handler that logs the same text, apart from numbers, once in repeatAfter, because a rejected relay
// retries forever.
type dedupLog struct {
	slog.Handler
	told *loggedTexts
}

// loggedTexts are texts with the time of their last line.
type loggedTexts struct {
	mu sync.Mutex
	at map[string]time.Time
}

func newDedupLog(h slog.Handler) dedupLog {
	return dedupLog{h, &loggedTexts{at: map[string]time.Time{}}}
}

// Handle implements slog.Handler.
func (l dedupLog) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn && l.told.seenRecently(textOf(record), record.Time) {
		return nil
	}
	return l.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (l dedupLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return dedupLog{l.Handler.WithAttrs(attrs), l.told}
}

// WithGroup implements slog.Handler.
func (l dedupLog) WithGroup(name string) slog.Handler {
	return dedupLog{l.Handler.WithGroup(name), l.told}
}

// textOf returns the text of a record without its numbers, because the numbers of connections differ each time.
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

// seenRecently reports whether a text was logged within repeatAfter. If not, it records that the text is logged now.
func (t *loggedTexts) seenRecently(text string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.at[text]; ok && now.Sub(at) < repeatAfter {
		return true
	}
	if len(t.at) >= maxLoggedTexts {
		clear(t.at)
	}
	t.at[text] = now
	return false
}
