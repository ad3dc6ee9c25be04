package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/task"
)

const (
	// countEvery is how old the count of open items may be, and how soon it is worth while to ask again.
	countEvery = time.Second
	// inflightShare is the part of all open items that may be on their way into the store at one time: those are in
	// memory.
	inflightShare = 2
	// busyRetry is when one who was refused is to ask again: some thousand items are carried out in that time.
	busyRetry = 5 * time.Second
)

// submitLimiter bounds how many items are open. It refuses early what would only wait, and keeps those who ask for more
// at once than can be stored from filling the memory.
type submitLimiter struct {
	store interface {
		OpenItems(ctx context.Context) (int, error)
	}
	now   func() time.Time
	limit int

	mu       sync.Mutex
	counted  time.Time
	open     int // at that time, and those that were let in since
	inflight int
}

func newSubmitLimiter(c Config, clock clock) *submitLimiter {
	return &submitLimiter{store: c.Store, now: clock.now, limit: c.MostOpen}
}

// admit lets a task in, or returns a *task.BusyError. When its items are stored, or will not be, stored must be called.
// A task that alone has more items than there may be is let in when nothing is open.
func (l *submitLimiter) admit(ctx context.Context, t *store.Task) (stored func(), err error) {
	n := 0
	for i := range t.Requests {
		n += len(t.Requests[i].Targets)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.open+n > l.limit && now.Sub(l.counted) >= countEvery {
		open, err := l.store.OpenItems(ctx)
		if err != nil {
			return nil, fmt.Errorf("cannot count open items: %w", err)
		}
		l.open, l.counted = open+l.inflight, now
	}
	if l.open > 0 && l.open+n > l.limit {
		return nil, &task.BusyError{Open: l.open, Most: l.limit, Retry: busyRetry}
	}
	if l.inflight > 0 && l.inflight+n > l.limit/inflightShare {
		return nil, &task.BusyError{Open: l.open, Most: l.limit, Retry: countEvery}
	}
	l.open += n
	l.inflight += n
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.inflight -= n
	}), nil
}
