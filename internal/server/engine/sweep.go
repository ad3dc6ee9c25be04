package engine

import (
	"context"
	"log/slog"
	"time"

	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// sweepBatch is how many items are ended at once.
const sweepBatch = 500

// sweeper ends items whose deadline has passed, so that a dead agent holds up no task.
type sweeper struct {
	store     Store
	clock     clock
	directory *fleet.Directory
	log       *slog.Logger
	finished  func(tasks []string)
	wake      signal
}

func newSweeper(c Config, clock clock, finished func([]string)) *sweeper {
	return &sweeper{store: c.Store, clock: clock, directory: c.Directory, log: c.Log, finished: finished, wake: newSignal()}
}

func (s *sweeper) run(ctx context.Context) {
	// Outcomes that came while no server ran are still at the agents: they get the time to come back with them.
	pause(ctx, fleet.ReturnTime)
	for ctx.Err() == nil {
		next, err := s.pass(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "overdue items could not be ended", "error", err)
			next = s.clock.now().Add(storeRetry)
		}
		s.clock.wait(ctx, s.wake, next)
	}
}

// pass ends all that is overdue and returns the next deadline, zero when there is none.
func (s *sweeper) pass(ctx context.Context) (time.Time, error) {
	for {
		items, err := s.store.Overdue(ctx, s.clock.now(), sweepBatch)
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
		s.log.InfoContext(ctx, "items were ended at their deadlines", "items", ended)
	}
}
