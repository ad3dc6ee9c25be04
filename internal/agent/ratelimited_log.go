package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// linesPerWindow is how often each message from the fabric is logged in a logWindow; the handler only counts the
	// others.
	linesPerWindow = 10
	logWindow      = time.Minute
)

// isFromFabric reports whether a message is about input from the fabric. An attacker in transit can cause any number
// of them, and the log is on this host's disk.
func isFromFabric(message string) bool {
	switch message {
	case "rejected message", "rejected manifest", "rejected orders", "cannot renew trust",
		"cannot deliver report, retrying",
		"rejected a reply subject that is not an inbox of the caller", "cannot send reply", "fabric reported an error",
		"fabric dropped messages":
		return true
	}
	return false
}

// rateLimitedLog is a handler that limits how often it logs each message about input from the fabric. It adds the
// number of lines that it left out.
type rateLimitedLog struct {
	slog.Handler
	counts *lineCounts
}

// lineCounts are the lines logged in the present window, and the lines left out since the last logged one.
type lineCounts struct {
	mu              sync.Mutex
	since           time.Time
	logged, omitted map[string]int
}

func newRateLimitedLog(h slog.Handler) rateLimitedLog {
	return rateLimitedLog{h, &lineCounts{logged: map[string]int{}, omitted: map[string]int{}}}
}

// Handle implements slog.Handler.
func (l rateLimitedLog) Handle(ctx context.Context, record slog.Record) error {
	if !isFromFabric(record.Message) {
		return l.Handler.Handle(ctx, record)
	}
	left, tell := l.counts.count(record.Message, record.Time)
	if !tell {
		return nil
	}
	if left > 0 {
		record = record.Clone()
		record.AddAttrs(slog.Int("left_out", left))
	}
	return l.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (l rateLimitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return rateLimitedLog{l.Handler.WithAttrs(attrs), l.counts}
}

// WithGroup implements slog.Handler.
func (l rateLimitedLog) WithGroup(name string) slog.Handler {
	return rateLimitedLog{l.Handler.WithGroup(name), l.counts}
}

// count reports whether to log a message, and how many were left out since the last one.
func (c *lineCounts) count(message string, now time.Time) (left int, tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since).Abs() >= logWindow {
		c.since = now
		clear(c.logged)
	}
	if c.logged[message] >= linesPerWindow {
		c.omitted[message]++
		return 0, false
	}
	c.logged[message]++
	left = c.omitted[message]
	c.omitted[message] = 0
	return left, true
}
