package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// heardAtOnce is how often each message of heard is told in heardEvery; the others are counted.
	heardAtOnce = 10
	heardEvery  = time.Minute
)

// heard are the messages about what has come over the fabric. Whoever is on the way can have any number of it come, and
// the log is on this host's disk.
func heard(message string) bool {
	switch message {
	case "rejected manifest", "rejected orders", "cannot renew trust", "cannot deliver report, retrying",
		"rejected a reply subject that is not an inbox of the caller", "cannot send reply", "fabric reported an error",
		"fabric dropped messages":
		return true
	}
	return false
}

// sparing is a handler that tells of what has come over the fabric some times a minute, and how many lines it has left
// out.
type sparing struct {
	slog.Handler
	counts *counts
}

// counts are those of the present minute, and of those that were left out before.
type counts struct {
	mu         sync.Mutex
	since      time.Time
	told, left map[string]int
}

func newSparing(h slog.Handler) sparing {
	return sparing{h, &counts{told: map[string]int{}, left: map[string]int{}}}
}

// Handle implements slog.Handler.
func (s sparing) Handle(ctx context.Context, record slog.Record) error {
	if !heard(record.Message) {
		return s.Handler.Handle(ctx, record)
	}
	left, tell := s.counts.count(record.Message, record.Time)
	if !tell {
		return nil
	}
	if left > 0 {
		record = record.Clone()
		record.AddAttrs(slog.Int("left_out", left))
	}
	return s.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (s sparing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparing{s.Handler.WithAttrs(attrs), s.counts}
}

// WithGroup implements slog.Handler.
func (s sparing) WithGroup(name string) slog.Handler {
	return sparing{s.Handler.WithGroup(name), s.counts}
}

// count reports whether a message is told, and how many were left out since one was told last.
func (c *counts) count(message string, now time.Time) (left int, tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since).Abs() >= heardEvery {
		c.since = now
		clear(c.told)
	}
	if c.told[message] >= heardAtOnce {
		c.left[message]++
		return 0, false
	}
	c.told[message]++
	left = c.left[message]
	c.left[message] = 0
	return left, true
}
