package engine

import (
	"context"
	"time"
)

// clock is the engine's time. The engine stores and compares only times of this clock. It is not the wall clock, so a
// change of the wall clock ends no operation early and delays none.
type clock struct{ now func() time.Time }

// monotonicNow returns a clock that starts at the current wall clock and then follows the monotonic clock.
func monotonicNow() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// wait blocks until the signal is raised, the given time, or the end of the context. A zero time never comes.
func (c clock) wait(ctx context.Context, s signal, at time.Time) {
	if at.IsZero() {
		s.wait(ctx, nil)
		return
	}
	timer := time.NewTimer(at.Sub(c.now()))
	defer timer.Stop()
	s.wait(ctx, timer.C)
}
