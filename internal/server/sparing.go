package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"drover/internal/server/store"
)

// spareFor is how long the same trouble is not told of again.
const spareFor = time.Minute

// strangerMessage tells of a host that has not joined; each of them tries for ever.
const strangerMessage = "rejected report of an unregistered agent"

const (
	// saidAtOnce is how often each message about one agent or proxy is told in forgetSpeakers, before it is told once
	// in spareFor about all of them: they may give cause as often as they like.
	saidAtOnce     = 10
	forgetSpeakers = 24 * time.Hour
	// mostSpeakers is how many of these are told apart.
	mostSpeakers = 10_000
)

// sparing is a handler that tells of a database that fails, and of hosts that are not known, once in spareFor, with how
// many lines it has left out: whatever a server does then fails, for each of its agents. What one agent gives cause for
// again and again it tells so often, and rarely then.
type sparing struct {
	slog.Handler
	spared *spared
}

// spared are the troubles that were told of, and how many lines were left out since.
type spared struct {
	mu   sync.Mutex
	told map[string]time.Time
	left map[string]int
	// times is how often messages were told about one since counted.
	times   map[string]int
	counted time.Time
}

func newSparing(h slog.Handler) sparing {
	return sparing{h, &spared{told: map[string]time.Time{}, left: map[string]int{}, times: map[string]int{}}}
}

// Handle implements slog.Handler.
func (s sparing) Handle(ctx context.Context, record slog.Record) error {
	trouble := troubleOf(record)
	if trouble == "" {
		trouble = s.spared.repeats(record)
	}
	if trouble == "" {
		return s.Handler.Handle(ctx, record)
	}
	left, tell := s.spared.tells(trouble, record.Time)
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
	return sparing{s.Handler.WithAttrs(attrs), s.spared}
}

// WithGroup implements slog.Handler.
func (s sparing) WithGroup(name string) slog.Handler {
	return sparing{s.Handler.WithGroup(name), s.spared}
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

// tells reports whether a trouble is told of now, and how many lines were left out before.
func (s *spared) tells(trouble string, now time.Time) (left int, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, told := s.told[trouble]; told && now.Sub(at) < spareFor {
		s.left[trouble]++
		return 0, false
	}
	left = s.left[trouble]
	s.told[trouble], s.left[trouble] = now, 0
	return left, true
}

// repeats names what was told too often about an agent or a proxy; empty for what is told each time.
func (s *spared) repeats(record slog.Record) string {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if record.Time.Sub(s.counted) >= forgetSpeakers {
		s.counted = record.Time
		clear(s.times)
	}
	name := record.Message + "\n" + speaker
	if _, known := s.times[name]; !known && len(s.times) >= mostSpeakers { // they are made up
		name = record.Message
	}
	if s.times[name]++; s.times[name] <= saidAtOnce {
		return ""
	}
	return record.Message
}
