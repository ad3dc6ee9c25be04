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
const strangerMessage = "report of an agent that is not in the register was refused"

// mostTroubles is how many troubles are remembered; beyond that all are forgotten.
const mostTroubles = 10_000

// sparing is a handler that tells of a database that fails, of hosts that are not known, and of the same about one agent, once in spareFor, with
// how many lines it has left out: without a database whatever a server does fails, and an agent can be wrong as often as it likes.
type sparing struct {
	slog.Handler
	spared *spared
}

// spared are the troubles that were told of, and how many lines were left out since.
type spared struct {
	mu   sync.Mutex
	told map[string]time.Time
	left map[string]int
}

func newSparing(h slog.Handler) sparing {
	return sparing{h, &spared{told: map[string]time.Time{}, left: map[string]int{}}}
}

// Handle implements slog.Handler.
func (s sparing) Handle(ctx context.Context, record slog.Record) error {
	trouble := troubleOf(record)
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
	if record.Level < slog.LevelInfo {
		return ""
	}
	worse := record.Level >= slog.LevelWarn
	record.Attrs(func(a slog.Attr) bool {
		if err, is := a.Value.Any().(error); is && worse {
			if _, failed := errors.AsType[*store.Failure](err); failed {
				trouble = "database"
				return false
			}
		}
		if a.Key == "agent" {
			trouble = record.Message + " " + a.Value.String()
		}
		return true
	})
	if record.Message == strangerMessage && trouble != "database" {
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
	if len(s.told) >= mostTroubles {
		clear(s.told)
		clear(s.left)
	}
	left = s.left[trouble]
	s.told[trouble], s.left[trouble] = now, 0
	return left, true
}
