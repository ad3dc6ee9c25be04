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
	// comingShare is the part of all open items that may be on their way into the store at one time: those are in
	// memory.
	comingShare = 2
	// busyRetry is when one who was refused is to ask again: some thousand items are carried out in that time.
	busyRetry = 5 * time.Second
)

// room bounds how many items are open. It refuses early what would only wait, and keeps those who ask for more at once
// than can be stored from filling the memory.
type room struct {
	store interface {
		OpenItems(ctx context.Context) (int, error)
	}
	now  func() time.Time
	most int

	mu      sync.Mutex
	counted time.Time
	open    int // at that time, and those that were let in since
	coming  int
}

func newRoom(c Config, clock clock) *room {
	return &room{store: c.Store, now: clock.now, most: c.MostOpen}
}

// enter lets a task in, or returns a *task.BusyError. When its items are stored, or will not be, stored must be called.
// A task that alone has more items than there may be is let in when nothing is open.
func (r *room) enter(ctx context.Context, t *store.Task) (stored func(), err error) {
	n := 0
	for i := range t.Requests {
		n += len(t.Requests[i].Targets)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); r.open+n > r.most && now.Sub(r.counted) >= countEvery {
		open, err := r.store.OpenItems(ctx)
		if err != nil {
			return nil, fmt.Errorf("cannot count open items: %w", err)
		}
		r.open, r.counted = open+r.coming, now
	}
	if r.open > 0 && r.open+n > r.most {
		return nil, &task.BusyError{Open: r.open, Most: r.most, Retry: busyRetry}
	}
	if r.coming > 0 && r.coming+n > r.most/comingShare {
		return nil, &task.BusyError{Open: r.open, Most: r.most, Retry: countEvery}
	}
	r.open += n
	r.coming += n
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.coming -= n
	}), nil
}
