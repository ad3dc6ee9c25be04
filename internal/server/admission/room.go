package admission

import (
	"context"
	"sync"
)

// room is an amount of bytes that is shared; who comes first is served first.
type room struct {
	mu    sync.Mutex
	free  int64
	queue []*guest
}

// guest waits for room; in is closed when it has it.
type guest struct {
	size int64
	in   chan struct{}
}

func newRoom(size int64) *room { return &room{free: size} }

// enter takes room, and reports false when there was none before the context ended.
func (r *room) enter(ctx context.Context, size int64) bool {
	g := &guest{size: size, in: make(chan struct{})}
	r.mu.Lock()
	r.queue = append(r.queue, g)
	r.admit()
	r.mu.Unlock()
	select {
	case <-g.in:
		return true
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, waiting := range r.queue {
		if waiting == g {
			r.queue = append(r.queue[:i], r.queue[i+1:]...)
			r.admit() // it may have stood in the way of smaller ones
			return false
		}
	}
	return true // it was let in at the last moment
}

func (r *room) leave(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += size
	r.admit()
}

// admit lets in those that there is room for; the caller holds the lock.
func (r *room) admit() {
	for len(r.queue) > 0 && r.queue[0].size <= r.free {
		r.free -= r.queue[0].size
		close(r.queue[0].in)
		r.queue = r.queue[1:]
	}
}
