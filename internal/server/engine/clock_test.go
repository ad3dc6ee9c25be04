package engine

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestClockIsNotStepped: without a clock of others the time carries a reading of the monotonic clock, by which Go then
// counts, however often it is asked, and it advances as that does.
func TestClockIsNotStepped(t *testing.T) {
	if now := monotonicNow()(); !strings.Contains(now.String(), " m=") {
		t.Errorf("%s has no reading of the monotonic clock", now)
	}
	synctest.Test(t, func(t *testing.T) {
		c := clock{monotonicNow()}
		begin := c.now()
		c.wait(t.Context(), newSignal(), begin.Add(25*time.Hour))
		if got := c.now().Sub(begin); got != 25*time.Hour {
			t.Errorf("waited %v, want 25 h", got)
		}
		// What comes back from the database has no such reading: it is of this clock all the same.
		stored := time.Unix(0, c.now().Add(time.Hour).UnixNano())
		c.wait(t.Context(), newSignal(), stored)
		if got := c.now().Sub(begin); got != 26*time.Hour {
			t.Errorf("waited %v, want 26 h", got)
		}
	})
}

// TestOneClock: all loops go by the clock that the engine was given, and none by the wall clock.
func TestOneClock(t *testing.T) {
	at := time.Now().Add(-25 * time.Hour)
	e := New(Config{Now: func() time.Time { return at }})
	for loop, c := range map[string]clock{
		"engine": e.clock, "dispatch": e.dispatch.clock, "send": e.dispatch.sender.clock, "collect": e.collect.clock,
		"sweep": e.sweep.clock, "clean": e.clean.clock,
	} {
		if !c.now().Equal(at) {
			t.Errorf("%s has a clock of its own, which shows %v", loop, c.now())
		}
	}
}
