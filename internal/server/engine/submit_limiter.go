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

	counting chan struct{} // holds one while the items are counted

	mu       sync.Mutex
	counted  time.Time
	open     int // at that time, and those that were let in since
	inflight int
}

func newSubmitLimiter(c Config, clock clock) *submitLimiter {
	return &submitLimiter{store: c.Store, now: clock.now, limit: c.MostOpen, counting: make(chan struct{}, 1)}
}

// admit lets a task in, or returns a *task.BusyError. When its items are stored, or will not be, stored must be called.
// A task that alone has more items than there may be is let in when nothing is open.
func (l *submitLimiter) admit(ctx context.Context, t *store.Task) (stored func(), err error) {
	n := 0
	for i := range t.Requests {
		n += len(t.Requests[i].Targets)
	}
	if err := l.recount(ctx, n); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
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

// recount counts the open items anew if n more are too many by a count that is old. Of several at once one counts, and
// the others wait for it; whoever needs no count does not wait.
func (l *submitLimiter) recount(ctx context.Context, n int) error {
	if !l.outdated(n) {
		return nil
	}
	select {
	case l.counting <- struct{}{}:
		defer func() { <-l.counting }()
	case <-ctx.Done():
		return fmt.Errorf("cannot count open items: %w", ctx.Err())
	}
	if !l.outdated(n) {
		return nil
	}
	l.mu.Lock()
	begun, open, inflight := l.now(), l.open, l.inflight
	l.mu.Unlock()
	stored, err := l.store.OpenItems(ctx)
	if err != nil {
		return fmt.Errorf("cannot count open items: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += stored + inflight - open // those that were let in meanwhile stay counted
	l.counted = begun
	return nil
}

// outdated reports whether n more items are too many by a count that is old.
func (l *submitLimiter) outdated(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open+n > l.limit && l.now().Sub(l.counted) >= countEvery
}
