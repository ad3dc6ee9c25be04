package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"drover/internal/idle"
)

const (
	cleanInterval = time.Hour
	// Each write of the cleaner is small, so that other writes do not wait long for it.
	cleanTasks    = 10
	cleanAudit    = 500
	cleanEvents   = 500
	cleanRemovals = 500
	// A revision may have a row for each host.
	cleanRevisions = 10
	// A selection may name many processes.
	cleanSelections = 10
)

// cleaner removes records after their retention time.
type cleaner struct {
	store Store
	clock clock
	// turn reports whether this engine should clean now.
	turn func(ctx context.Context, what string, every time.Duration) (bool, error)
	log  *slog.Logger
	// tasks, audit, events, removals and revisions are the retention times. mostEvents is the largest number of events.
	tasks, audit, events, removals, revisions time.Duration
	mostEvents                                int
}

func (c *cleaner) run(ctx context.Context) {
	for ctx.Err() == nil {
		mine, err := c.turn(ctx, "retention", cleanInterval)
		if mine {
			err = c.pass(ctx, c.clock.now())
		}
		if err != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "cannot remove old rows", "error", err)
		}
		idle.Sleep(ctx, cleanInterval)
	}
}

func (c *cleaner) pass(ctx context.Context, now time.Time) error {
	prune := func(what string, remove func(context.Context, time.Time, int) (int, error), kept time.Duration,
		limit int,
	) error {
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
			c.log.InfoContext(ctx, "removed old rows", "of", what, "rows", total)
		}
		return nil
	}
	return errors.Join(
		prune("tasks", c.store.PruneTasks, c.tasks, cleanTasks),
		prune("rollouts", c.store.PruneRollouts, c.tasks, cleanTasks),
		prune("audit rows", c.store.PruneAudit, c.audit, cleanAudit),
		prune("events", c.store.PruneEvents, c.events, cleanEvents),
		prune("silences", c.store.PruneSilences, c.events, cleanEvents),
		prune("selections", c.store.PruneSelections, 0, cleanSelections),
		c.share(ctx),
		prune("removals of processes", c.store.PruneConfirmed, c.removals, cleanRemovals),
		prune("revisions", c.store.PruneRevisions, c.revisions, cleanRevisions),
	)
}

// share trims the events of all agents together to mostEvents. The agents with the most events lose theirs first.
func (c *cleaner) share(ctx context.Context) error {
	counts, err := c.store.CountEvents(ctx)
	if err != nil {
		return err
	}
	most := min(mostOfAgent, shareOf(slices.Collect(maps.Values(counts)), c.mostEvents))
	for agent, n := range counts {
		if n <= most {
			continue
		}
		c.log.InfoContext(ctx, "removed events of a host that exceeded its limit", "agent", agent, "events", n-most)
		if err := trim(ctx, c.store, agent, most); err != nil {
			return err
		}
	}
	return nil
}

// shareOf returns the largest limit for each count at which all limited counts together fit into room.
func shareOf(counts []int, room int) int {
	slices.Sort(counts)
	for i, n := range counts {
		each := room / (len(counts) - i)
		if n > each {
			return each
		}
		room -= n
	}
	return math.MaxInt
}

// trim removes all but the newest keep events of an agent.
func trim(ctx context.Context, s Store, agent string, keep int) error {
	for {
		n, err := s.TrimEvents(ctx, agent, keep, cleanEvents)
		if err != nil || n < cleanEvents {
			return err
		}
	}
}
