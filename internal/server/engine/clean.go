package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

const (
	cleanInterval = time.Hour
	// A write of the cleaner is small, so that no other waits long behind it.
	cleanTasks    = 10
	cleanAudit    = 500
	cleanEvents   = 500
	cleanRemovals = 500
)

// cleaner removes what has been kept long enough.
type cleaner struct {
	store Store
	clock clock
	// turn reports whether it is for this engine to clean now.
	turn func(ctx context.Context, what string, every time.Duration) (bool, error)
	log  *slog.Logger
	// tasks, audit, events and removals are how long each is kept, mostEvents how many events are.
	tasks, audit, events, removals time.Duration
	mostEvents                     int
}

func (c *cleaner) run(ctx context.Context) {
	for ctx.Err() == nil {
		mine, err := c.turn(ctx, "retention", cleanInterval)
		if mine {
			err = c.pass(ctx, c.clock.now())
		}
		if err != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "old rows could not be removed", "error", err)
		}
		pause(ctx, cleanInterval)
	}
}

func (c *cleaner) pass(ctx context.Context, now time.Time) error {
	prune := func(what string, remove func(context.Context, time.Time, int) (int, error), kept time.Duration, limit int) error {
		total := 0
		for {
			n, err := remove(ctx, now.Add(-kept), limit)
			if err != nil {
				return err
			}
			total += n
			if n < limit {
				break
			}
		}
		if total > 0 {
			c.log.InfoContext(ctx, "old rows were removed", "of", what, "rows", total)
		}
		return nil
	}
	return errors.Join(
		prune("tasks", c.store.PruneTasks, c.tasks, cleanTasks),
		prune("audit rows", c.store.PruneAudit, c.audit, cleanAudit),
		prune("events", func(ctx context.Context, before time.Time, limit int) (int, error) {
			return c.store.PruneEvents(ctx, before, c.mostEvents, limit)
		}, c.events, cleanEvents),
		prune("removals of processes", c.store.PruneConfirmed, c.removals, cleanRemovals),
	)
}
