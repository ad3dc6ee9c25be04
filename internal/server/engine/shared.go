package engine

import (
	"context"
	"time"

	"drover/internal/server/bus"
)

// TasksEnded wakes the callers that wait for these tasks, because another engine has finished items of them.
func (e *Engine) TasksEnded(tasks []string) { e.waiters.wake(tasks) }

// Look makes all loops check at once for changes by other engines.
func (e *Engine) Look() {
	e.waiters.wakeAll()
	e.dispatch.wake.raise()
	e.sweep.wake.raise()
}

// pollOtherEngines checks at intervals for changes by other engines that sent no notice. An engine that died leaves
// items leased, which are due when the lease ends.
func (e *Engine) pollOtherEngines(ctx context.Context) {
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
			e.bus.Arrived(bus.Events)
		}
	}
}
