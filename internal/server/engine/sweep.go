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
	// sweepLook is how often the store is asked at least while any item is open, so that no outage that lasts goes
	// unnoticed, and how long it may take to answer. It is asked to write: one that can only be read takes no outcomes
	// either. What is shorter than that is covered by task.Grace.
	sweepLook = 5 * time.Second
)

// errLate says that the store has answered after so long a time that nobody else may have been heard meanwhile.
var errLate = errors.New("the store answered too late")

// sweeper ends items whose deadline has passed, so that a dead agent holds up no task.
type sweeper struct {
	store     Store
	clock     clock
	directory *fleet.Directory
	log       *slog.Logger
	finished  func(tasks []string)
	wake      signal
	// written is when the store was last known to take writes.
	written time.Time
}

func newSweeper(c Config, clock clock, finished func([]string)) *sweeper {
	return &sweeper{
		store: c.Store, clock: clock, directory: c.Directory, log: c.Log, finished: finished,
		wake: newSignal(),
	}
}

func (s *sweeper) run(ctx context.Context) {
	// Outcomes that came while no server ran are still at the agents: they get the time to come back with them.
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

// outlast waits until the store takes writes again, and for the agents, which have kept what they could not report
// meanwhile.
func (s *sweeper) outlast(ctx context.Context) {
	for ctx.Err() == nil {
		idle.Sleep(ctx, storeRetry)
		if err := s.store.Ping(ctx); err == nil {
			break
		}
	}
	idle.Sleep(ctx, fleet.SettleTime)
	s.written = s.clock.now()
}

// pass ends all that is overdue and returns the next deadline, zero when there is none.
func (s *sweeper) pass(ctx context.Context) (time.Time, error) {
	if s.clock.now().Sub(s.written) >= sweepLook {
		if err := s.store.Ping(ctx); err != nil {
			return time.Time{}, err
		}
		s.written = s.clock.now()
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
