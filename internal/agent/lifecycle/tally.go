package lifecycle

import (
	"slices"
	"time"
)

// Tally remembers recent relaunches and exceeded limits of a process. Unlike the budget, a long run does not restore
// it. Times are since boot. The zero value is ready.
type Tally struct {
	Relaunches []time.Duration `json:"relaunches,omitempty"`
	Breaches   []time.Duration `json:"breaches,omitempty"`
}

// mostBreaches bounds how many breaches a Tally holds, if any number is borne.
const mostBreaches = 100

// Bounds are the limits of a Tally.
type Bounds struct {
	// Flaps is the number of relaunches within FlapWindow before a process is flapping.
	Flaps      int
	FlapWindow time.Duration
	// BreachWindow is the time for which a breach counts.
	BreachWindow time.Duration
}

// Relaunched returns the tally after one more relaunch.
func (t Tally) Relaunched(b Bounds, now time.Duration) Tally {
	t.Relaunches = lately(t.Relaunches, now, b.FlapWindow)
	t.Relaunches = append(t.Relaunches, now)
	if extra := len(t.Relaunches) - b.Flaps - 1; extra > 0 {
		t.Relaunches = t.Relaunches[extra:]
	}
	return t
}

// Recent returns the tally without expired entries.
func (t Tally) Recent(b Bounds, now time.Duration) Tally {
	return Tally{Relaunches: lately(t.Relaunches, now, b.FlapWindow), Breaches: lately(t.Breaches, now, b.BreachWindow)}
}

// Flapping reports whether the process was relaunched too often lately.
func (t Tally) Flapping(b Bounds, now time.Duration) bool {
	return len(lately(t.Relaunches, now, b.FlapWindow)) > b.Flaps
}

// Breached returns the tally after one more breach, and whether there were too many breaches lately: more than borne,
// if that is not 0.
func (t Tally) Breached(b Bounds, now time.Duration, borne int) (after Tally, spent bool) {
	t.Breaches = append(lately(t.Breaches, now, b.BreachWindow), now)
	if extra := len(t.Breaches) - max(borne, mostBreaches) - 1; extra > 0 {
		t.Breaches = t.Breaches[extra:]
	}
	return t, borne > 0 && len(t.Breaches) > borne
}

// lately returns a copy of the times within the window.
func lately(times []time.Duration, now, window time.Duration) []time.Duration {
	first, _ := slices.BinarySearch(times, now-window)
	return slices.Clone(times[first:])
}
