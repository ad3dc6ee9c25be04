package engine

import (
	"context"
	"time"
)

// clock is the engine's time: the wall clock as it was when the engine was made, and what has passed since. Whoever steps the wall
// clock meanwhile ends no operation early and holds none up. All times that the engine stores and compares are its own.
type clock struct{ start time.Time }

func newClock() clock { return clock{start: time.Now()} }

// now is the present time, of the clock and of Go's monotonic clock alike.
func (c clock) now() time.Time { return c.start.Add(time.Since(c.start)) }

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
