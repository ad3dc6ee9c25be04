package engine

import (
	"context"
	"time"
)

// TasksEnded says that another engine has finished items of these tasks: whoever waits for one looks again.
func (e *Engine) TasksEnded(tasks []string) { e.waiters.wake(tasks) }

// EventsArrived says that another engine has stored events.
func (e *Engine) EventsArrived() { e.subscribers.wake() }

// Look has all loops look at once for what other engines have done.
func (e *Engine) Look() {
	e.waiters.wakeAll()
	e.subscribers.wake()
	e.dispatch.wake.raise()
	e.sweep.wake.raise()
}

// look looks every so often for what other engines have done and nobody has told of: one that has died leaves items
// leased, and due when its lease ends.
func (e *Engine) look(ctx context.Context) {
	if e.shared.Look == 0 {
		return
	}
	ticker := time.NewTicker(e.shared.Look)
	defer ticker.Stop()
	var last int64
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		e.waiters.wakeAll()
		e.dispatch.wake.raise()
		e.sweep.wake.raise()
		cursor, err := e.store.LastCursor(ctx)
		if err == nil && cursor != last {
			last = cursor
			e.subscribers.wake()
		}
	}
}
