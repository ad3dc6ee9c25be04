package admission

import (
	"context"
	"sync"
)

// semaphore is a shared number of bytes, or of turns; waiters are served in order.
type semaphore struct {
	mu    sync.Mutex
	free  int64
	queue []*waiter
}

// waiter waits for memory; in is closed when it has the memory.
type waiter struct {
	size int64
	in   chan struct{}
}

func newSemaphore(size int64) *semaphore { return &semaphore{free: size} }

// acquire takes memory. It returns false if there is none before the context ends.
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
			s.wakeWaiters() // smaller requests may have waited behind this one
			return false
		}
	}
	return true // it was admitted at the last moment
}

func (s *semaphore) release(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += size
	s.wakeWaiters()
}

// wakeWaiters admits the waiters for which there is memory; the caller holds the lock.
func (s *semaphore) wakeWaiters() {
	for len(s.queue) > 0 && s.queue[0].size <= s.free {
		s.free -= s.queue[0].size
		close(s.queue[0].in)
		s.queue = s.queue[1:]
	}
}
