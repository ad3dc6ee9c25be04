package operations

import (
	"context"
	"errors"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/store"
)

// mostWalked is the largest number of tasks, rollouts and results that one list reads to find rows that the caller
// sees.
const mostWalked = call.MaxItems

// Seer decides which tasks and rollouts of a Sight a caller sees. The Sight filters by app and namespace, and a Seer by
// host.
type Seer struct {
	h       *Handler
	own     string
	limited bool
	reaches *access.Reaches
	// RowsLeft is the number of rows of mostWalked that the list may still read.
	RowsLeft int
}

// NewSeer returns the seer for the caller of a call.
func (h *Handler) NewSeer(c *call.Call) *Seer {
	return &Seer{
		h: h, own: c.App(), limited: c.Principal.Limited(access.OperationOf(process.Query)),
		reaches: access.NewReaches(c.Principal), RowsLeft: mostWalked,
	}
}

// everywhere reports whether the caller may query each process of a namespace.
func (s *Seer) everywhere(namespace string) bool {
	return !s.limited || s.reaches.On(access.OperationOf(process.Query), namespace).Everywhere()
}

// Task reports whether the caller sees a task of its sight.
func (s *Seer) Task(ctx context.Context, t *store.TaskSummary) (bool, error) {
	if s.RowsLeft--; t.App == s.own || !s.limited || t.Requests == 1 && s.everywhere(t.Process.Namespace) {
		return true, nil
	}
	s.RowsLeft -= t.Keys
	return s.results(ctx, t.ID)
}

// results reports whether the caller may query each process of a task. It returns false for a task without results.
func (s *Seer) results(ctx context.Context, id string) (sees bool, err error) {
	hidden := errors.New("a process is hidden")
	query := access.OperationOf(process.Query)
	err = s.h.Tasks.TaskItems(ctx, id, "", func(v store.ItemView) error {
		if sees = s.reaches.On(query, v.Process.Namespace).Covers(s.h.hosts.HostOfResult(v)); !sees {
			return hidden
		}
		return nil
	})
	if errors.Is(err, hidden) || errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return sees, err
}

// Rollout reports whether the caller sees a rollout of its sight.
func (s *Seer) Rollout(ctx context.Context, r *store.Rollout) (bool, error) {
	if s.RowsLeft--; r.App == s.own || !s.limited {
		return true, nil
	}
	s.RowsLeft -= r.Total
	whole, err := s.h.Rollouts.GetRollout(ctx, r.ID, "")
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && s.h.onAll(whole, s.reads), err
}

// reads reports whether the caller may query the process of a step on a host.
func (s *Seer) reads(step *store.RolloutStep, host access.Host) bool {
	return s.reaches.MayRead(step.Op, step.Process.Namespace, host)
}

// collectVisible reads rows of a list after a place until the caller sees enough of them. next is the place where the
// list goes on; 0 at its end. After mostWalked rows it returns fewer rows than the limit, with a place to go on.
func collectVisible[T any](s *Seer, after int64, limit int, list func(after int64) ([]T, error), place func(*T) int64,
	sees func(*T) (bool, error),
) (rows []T, next int64, err error) {
	for {
		page, err := list(after)
		if err != nil {
			return nil, 0, err
		}
		for i := range page {
			after = place(&page[i])
			yes, err := sees(&page[i])
			if err != nil {
				return nil, 0, err
			}
			if yes {
				rows = append(rows, page[i])
			}
			if (len(rows) == limit || s.RowsLeft <= 0) && (i+1 < len(page) || len(page) == limit) {
				return rows, after, nil
			}
		}
		if len(page) < limit {
			return rows, 0, nil
		}
	}
}

// seenPage returns the reply with a page of the rows of collectVisible.
func seenPage[T, V any](c *call.Call, rows []T, next int64, view func(T) V) (call.Reply, error) {
	c.Audit.Targets = len(rows)
	var last any
	if next != 0 {
		last = next
	}
	return call.OK(call.PageOf(c, call.Viewed(rows, view), last))
}
