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
	// countEvery is the longest age of the count of open items, and the retry delay while too much is inflight.
	countEvery = time.Second
	// inflightShare divides the limit: open items that are on the way into the store, and so in memory, may be at most
	// this part.
	inflightShare = 2
	// busyRetry is the retry delay of a rejected caller: in that time agents execute some thousand items.
	busyRetry = 5 * time.Second
)

// submitLimiter bounds how many items are open. It rejects early what would only wait, and keeps callers that submit
// more than the store can take from filling the memory.
type submitLimiter struct {
	store interface {
		OpenItems(ctx context.Context) (int, error)
	}
	now   func() time.Time
	limit int

	counting chan struct{} // holds a token during a count

	mu       sync.Mutex
	counted  time.Time
	open     int // at the time of the count, plus the items admitted since
	inflight int
}

func newSubmitLimiter(c Config, clock clock) *submitLimiter {
	return &submitLimiter{store: c.Store, now: clock.now, limit: c.MostOpen, counting: make(chan struct{}, 1)}
}

// admit admits a task, or returns a *task.BusyError. The caller must call stored when the items are stored or will not
// be. If nothing is open, admit accepts a task that alone exceeds the limit.
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

// recount counts the open items again if n more would exceed the limit by an old count. Of several concurrent callers
// one counts and the others wait for it. A caller that needs no count does not wait.
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
	l.open += stored + inflight - open // items admitted meanwhile stay counted
	l.counted = begun
	return nil
}

// outdated reports whether n more items exceed the limit by an old count.
func (l *submitLimiter) outdated(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open+n > l.limit && l.now().Sub(l.counted) >= countEvery
}
