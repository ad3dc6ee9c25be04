package store

import (
	"context"
	"time"
)

// CancelCounts is the result of the cancellation of a task: the number of its operations by what happened to them.
type CancelCounts struct {
	// Ended operations were never sent, and have ended as cancelled.
	Ended int
	// Asked operations may be at their agents and have not begun as far as the server knows. Each agent decides. They
	// count again in a further cancellation while the agents have not decided.
	Asked int
	// Begun operations go on.
	Begun int
}

// Cancelling ends operations before they begin.
type Cancelling interface {
	// CancelTask ends the items of a task that were certainly never sent, as task.Cancelled. It marks the other items
	// that have not begun: the server never sends them as orders again, and LeaseCancels returns them. It returns
	// ErrNotFound for an unknown task and for a task of another app (an empty app matches any).
	CancelTask(ctx context.Context, id, app string, now time.Time) (CancelCounts, error)
	// LeaseCancels returns up to limit marked items that have not begun and whose agents do not know the mark, and
	// leases them until the given time. next is when more such items are due; zero if there are none.
	LeaseCancels(ctx context.Context, now, until time.Time, limit int) (items []Item, next time.Time, err error)
	// CancelHeard records that the agents know the marks of these items.
	CancelHeard(ctx context.Context, ids []string) error
}
