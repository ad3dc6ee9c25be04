package engine

import (
	"context"
	"time"
)

// clock is the engine's time. All times that the engine stores and compares are of it; it is not the wall clock, so
// that whoever sets that ends no operation early and holds none up.
type clock struct{ now func() time.Time }

// monotonicNow returns a clock that shows the wall clock as it is now, and what has passed since.
func monotonicNow() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// wait blocks until the signal is raised, the time has come, or the context ends. A zero time never comes.
func (c clock) wait(ctx context.Context, s signal, at time.Time) {
	if at.IsZero() {
		s.wait(ctx, nil)
		return
	}
	timer := time.NewTimer(at.Sub(c.now()))
	defer timer.Stop()
	s.wait(ctx, timer.C)
}
