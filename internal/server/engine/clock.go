package engine

import (
	"context"
	"time"
)

// clock is the engine's time: the wall clock as it was when the engine was made, and what has passed since. Whoever steps the wall
// clock meanwhile ends no operation early and holds none up. All times that the engine stores and compares are its own.
type clock struct {
	wall  time.Time
	start time.Time
}

// newClock returns a clock that shows the given time now.
func newClock(wall time.Time) clock { return clock{wall: wall, start: time.Now()} }

// now is the present time. It has a reading of Go's monotonic clock if the wall clock had.
func (c clock) now() time.Time { return c.wall.Add(time.Since(c.start)) }

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
