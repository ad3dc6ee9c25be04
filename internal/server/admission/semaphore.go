package admission

import (
	"context"
	"sync"
)

// semaphore is an amount of bytes that is shared; who comes first is served first.
type semaphore struct {
	mu    sync.Mutex
	free  int64
	queue []*waiter
}

// waiter waits for room; in is closed when it has it.
type waiter struct {
	size int64
	in   chan struct{}
}

func newSemaphore(size int64) *semaphore { return &semaphore{free: size} }

// acquire takes room, and reports false when there was none before the context ended.
func (s *semaphore) acquire(ctx context.Context, size int64) bool {
	g := &waiter{size: size, in: make(chan struct{})}
	s.mu.Lock()
	s.queue = append(s.queue, g)
	s.wakeWaiters()
	s.mu.Unlock()
	select {
	case <-g.in:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, waiting := range s.queue {
		if waiting == g {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			s.wakeWaiters() // it may have stood in the way of smaller ones
			return false
		}
	}
	return true // it was let in at the last moment
}

func (s *semaphore) release(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += size
	s.wakeWaiters()
}

// wakeWaiters lets in those that there is room for; the caller holds the lock.
func (s *semaphore) wakeWaiters() {
	for len(s.queue) > 0 && s.queue[0].size <= s.free {
		s.free -= s.queue[0].size
		close(s.queue[0].in)
		s.queue = s.queue[1:]
	}
}
