package engine

import "sync"

// audience holds who wants to hear of new events.
type audience struct {
	mu  sync.Mutex
	all map[signal]struct{}
}

func newAudience() *audience { return &audience{all: map[signal]struct{}{}} }

// ListenEvents returns a channel that receives after new events were stored, until stop is called. One that is not read
// does not fill: many arrivals are one message.
func (e *Engine) ListenEvents() (woken <-chan struct{}, stop func()) {
	a, s := e.audience, newSignal()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[s] = struct{}{}
	return s, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.all, s)
	}
}

func (a *audience) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.all {
		s.raise()
	}
}
