package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"drover/internal/idle"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

const (
	// sweepBatch is how many items are ended at once.
	sweepBatch = 500
	// sweepLook is the interval at which the sweeper pings the store while any item is open, so that it notices every
	// long outage. It is also how long the store may take to answer. The ping writes, because a store that can only be
	// read cannot take outcomes either. task.Grace covers shorter outages.
	sweepLook = 5 * time.Second
)

// errLate means that the store took so long to answer that reports of agents may not have been stored meanwhile.
var errLate = errors.New("the store answered too late")

// sweeper ends items whose deadline has passed, so that a dead agent blocks no task.
type sweeper struct {
	store     Store
	clock     clock
	directory *fleet.Directory
	log       *slog.Logger
	finished  func(tasks []string)
	wake      signal
	// lastPing is the time of the last successful ping of the store.
	lastPing time.Time
}

func newSweeper(c Config, clock clock, finished func([]string)) *sweeper {
	return &sweeper{
		store: c.Store, clock: clock, directory: c.Directory, log: c.Log, finished: finished,
		wake: newSignal(),
	}
}

func (s *sweeper) run(ctx context.Context) {
	// Agents still hold outcomes from the time when no server ran. This pause gives them time to report those outcomes.
	idle.Sleep(ctx, fleet.SettleTime)
	for ctx.Err() == nil {
		next, err := s.pass(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "cannot expire overdue items", "error", err)
			s.outlast(ctx)
			continue
		}
		if look := s.clock.now().Add(sweepLook); !next.IsZero() && next.After(look) {
			next = look
		}
		s.clock.wait(ctx, s.wake, next)
	}
}

// outlast waits until the store accepts writes again, and then until the agents had time to report what they could not
// report meanwhile.
func (s *sweeper) outlast(ctx context.Context) {
	for ctx.Err() == nil {
		idle.Sleep(ctx, storeRetry)
		if err := s.store.Ping(ctx); err == nil {
			break
		}
	}
	idle.Sleep(ctx, fleet.SettleTime)
	s.lastPing = s.clock.now()
}

// pass ends all overdue items and returns the next deadline; zero if there is none.
func (s *sweeper) pass(ctx context.Context) (time.Time, error) {
	if s.clock.now().Sub(s.lastPing) >= sweepLook {
		if err := s.store.Ping(ctx); err != nil {
			return time.Time{}, err
		}
		s.lastPing = s.clock.now()
	}
	for {
		asked := s.clock.now()
		items, err := s.store.Overdue(ctx, asked, sweepBatch)
		if err == nil && s.clock.now().Sub(asked) > sweepLook {
			err = errLate
		}
		if err != nil {
			return time.Time{}, err
		}
		if len(items) == 0 {
			next, _, err := s.store.NextDeadline(ctx)
			return next, err
		}
		now := s.clock.now()
		ended, err := conclude(ctx, s.store, now, s.finished, items, func(it *store.Item) task.Event {
			return task.Overdue{Away: s.directory.Presence(it.Agent, now).Away}
		})
		if err != nil {
			return time.Time{}, err
		}
		s.log.InfoContext(ctx, "expired items at their deadlines", "items", ended)
	}
}
