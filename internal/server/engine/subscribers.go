package engine

import "sync"

// subscribers holds the channels of readers that wait for new events.
type subscribers struct {
	mu  sync.Mutex
	all map[signal]struct{}
}

func newSubscribers() *subscribers { return &subscribers{all: map[signal]struct{}{}} }

// ListenEvents returns a channel that receives after new events were stored, until stop is called. Several notices
// before a receive count as one.
func (e *Engine) ListenEvents() (woken <-chan struct{}, stop func()) {
	a, s := e.subscribers, newSignal()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[s] = struct{}{}
	return s, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.all, s)
	}
}

func (subs *subscribers) wake() {
	subs.mu.Lock()
	defer subs.mu.Unlock()
	for s := range subs.all {
		s.raise()
	}
}
