package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"drover/internal/server/store"
)

// repeatAfter is how long the log suppresses repeats of the same trouble.
const repeatAfter = time.Minute

// strangerMessage is the message about a host that has not joined; such hosts retry forever.
const strangerMessage = "rejected report of an unregistered agent"

const (
	// linesAtOnce is how often each message about one agent or proxy is logged within forgetSpeakers. Further ones are
	// logged once in repeatAfter for all agents together, because an agent may cause them as often as it likes.
	linesAtOnce    = 10
	forgetSpeakers = 24 * time.Hour
	// mostSpeakers is how many agents and proxies the log distinguishes.
	mostSpeakers = 10_000
)

// rateLimitedLog is a handler that logs some troubles only once in repeatAfter, with the number of omitted lines: a
// failing database, which affects every agent, and unknown hosts. Repeated messages about one agent are logged
// linesAtOnce times, and then rarely.
type rateLimitedLog struct {
	slog.Handler
	counts *lineCounts
}

// lineCounts has the logged troubles, and the number of omitted lines since.
type lineCounts struct {
	mu      sync.Mutex
	logged  map[string]time.Time
	omitted map[string]int
	// times is how often messages about one agent or proxy were logged since counted.
	times   map[string]int
	counted time.Time
}

func newRateLimitedLog(h slog.Handler) rateLimitedLog {
	return rateLimitedLog{h, &lineCounts{
		logged: map[string]time.Time{}, omitted: map[string]int{},
		times: map[string]int{},
	}}
}

// Handle implements slog.Handler.
func (l rateLimitedLog) Handle(ctx context.Context, record slog.Record) error {
	trouble := troubleOf(record)
	if trouble == "" {
		trouble = l.counts.repeats(record)
	}
	if trouble == "" {
		return l.Handler.Handle(ctx, record)
	}
	left, tell := l.counts.allow(trouble, record.Time)
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

// troubleOf returns the trouble of a record; empty for a record that is always logged.
func troubleOf(record slog.Record) (trouble string) {
	if record.Level < slog.LevelWarn {
		return ""
	}
	record.Attrs(func(a slog.Attr) bool {
		if err, is := a.Value.Any().(error); is {
			if _, failed := errors.AsType[*store.Failure](err); failed {
				trouble = "database"
			}
		}
		return trouble == ""
	})
	if trouble == "" && record.Message == strangerMessage {
		trouble = "strangers"
	}
	return trouble
}

// allow reports whether a trouble is logged now, and how many lines were omitted before.
func (c *lineCounts) allow(trouble string, now time.Time) (left int, tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, told := c.logged[trouble]; told && now.Sub(at) < repeatAfter {
		c.omitted[trouble]++
		return 0, false
	}
	left = c.omitted[trouble]
	c.logged[trouble], c.omitted[trouble] = now, 0
	return left, true
}

// repeats returns the message about an agent or a proxy that was logged too often; empty for a record that is logged.
func (c *lineCounts) repeats(record slog.Record) string {
	speaker := ""
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "agent" || a.Key == "proxy" || a.Key == "subject" {
			speaker = a.Value.String()
		}
		return speaker == ""
	})
	if speaker == "" || record.Level < slog.LevelInfo {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if record.Time.Sub(c.counted) >= forgetSpeakers {
		c.counted = record.Time
		clear(c.times)
	}
	name := record.Message + "\n" + speaker
	if _, known := c.times[name]; !known && len(c.times) >= mostSpeakers { // the names are made up
		name = record.Message
	}
	if c.times[name]++; c.times[name] <= linesAtOnce {
		return ""
	}
	return record.Message
}
