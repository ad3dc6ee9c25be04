package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"drover/internal/server/store"
)

// repeatAfter is how long the same trouble is not told of again.
const repeatAfter = time.Minute

// strangerMessage tells of a host that has not joined; each of them tries for ever.
const strangerMessage = "rejected report of an unregistered agent"

const (
	// linesAtOnce is how often each message about one agent or proxy is told in forgetSpeakers, before it is told once
	// in repeatAfter about all of them: they may give cause as often as they like.
	linesAtOnce    = 10
	forgetSpeakers = 24 * time.Hour
	// mostSpeakers is how many of these are told apart.
	mostSpeakers = 10_000
)

// rateLimitedLog is a handler that tells of a database that fails, and of hosts that are not known, once in
// repeatAfter, with how many lines it has left out: whatever a server does then fails, for each of its agents. What one
// agent gives cause for again and again it tells so often, and rarely then.
type rateLimitedLog struct {
	slog.Handler
	counts *lineCounts
}

// lineCounts are the troubles that were told of, and how many lines were left out since.
type lineCounts struct {
	mu      sync.Mutex
	logged  map[string]time.Time
	omitted map[string]int
	// times is how often messages were told about one since counted.
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

// troubleOf names the trouble that a record is about; empty for one that is told of each time.
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

// allow reports whether a trouble is told of now, and how many lines were left out before.
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

// repeats names what was told too often about an agent or a proxy; empty for what is told each time.
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
	if _, known := c.times[name]; !known && len(c.times) >= mostSpeakers { // they are made up
		name = record.Message
	}
	if c.times[name]++; c.times[name] <= linesAtOnce {
		return ""
	}
	return record.Message
}
