// Package loglimit keeps repeated trouble from filling a log: a rule names the trouble that a record tells of, and
// the handler logs each trouble a few times a minute, with the number of lines that it left out. It owns the counts;
// the rule is its caller's.
package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Window is the time for which a rule gives the number of lines.
const Window = time.Minute

// Rule returns the trouble that a record tells of, and how many lines about this trouble are logged within a Window.
// Records without a trouble are always logged. The number of different troubles must have a bound, because the handler
// remembers each. A rule must be safe for concurrent use.
type Rule func(record slog.Record) (trouble string, lines int)

// Handler is a slog.Handler that logs each trouble as often as its rule allows. The first line after an omission has
// the attribute left_out: the number of lines that the handler has omitted. Handlers made from it share its counts.
type Handler struct {
	slog.Handler
	rule   Rule
	counts *counts
}

// counts has the current window of each trouble.
type counts struct {
	mu      sync.Mutex
	windows map[string]window
}

// window has the lines since its beginning that were logged, and the lines since the last logged one that were omitted.
type window struct {
	begun           time.Time
	logged, omitted int
}

// New returns a handler over h.
func New(h slog.Handler, rule Rule) Handler {
	return Handler{h, rule, &counts{windows: map[string]window{}}}
}

// Handle implements slog.Handler.
func (h Handler) Handle(ctx context.Context, record slog.Record) error {
	trouble, lines := h.rule(record)
	if trouble == "" {
		return h.Handler.Handle(ctx, record)
	}
	omitted, ok := h.counts.allow(trouble, lines, record.Time)
	if !ok {
		return nil
	}
	if omitted > 0 {
		record = record.Clone()
		record.AddAttrs(slog.Int("left_out", omitted))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Handler{h.Handler.WithAttrs(attrs), h.rule, h.counts}
}

// WithGroup implements slog.Handler.
func (h Handler) WithGroup(name string) slog.Handler {
	return Handler{h.Handler.WithGroup(name), h.rule, h.counts}
}

// allow reports whether a line about a trouble may be logged now, and how many lines were omitted before it. A clock
// that was set back begins a new window.
func (c *counts) allow(trouble string, lines int, now time.Time) (omitted int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.windows[trouble]
	if now.Sub(w.begun).Abs() >= Window {
		w.begun, w.logged = now, 0
	}
	if w.logged >= lines {
		w.omitted++
		c.windows[trouble] = w
		return 0, false
	}
	w.logged++
	omitted, w.omitted = w.omitted, 0
	c.windows[trouble] = w
	return omitted, true
}
