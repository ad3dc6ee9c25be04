package supervisor

import (
	"testing"
	"time"
)

// TestTenThousandPlaces: all have a place within the time that the rate allows, in the order in which they asked; a
// place that is given back is not lost.
func TestTenThousandPlaces(t *testing.T) {
	const many, burst, rate = 10000, 500, 100
	b := newBudget(burst, rate)
	now := 5 * time.Hour
	var last time.Duration
	for i := range many {
		wait, _ := b.reserve(now)
		want := max(0, time.Duration(i+1-burst)*time.Second/rate)
		if diff := wait - want; diff.Abs() > time.Millisecond || wait < last {
			t.Fatalf("place %d is after %v, want %v", i, wait, want)
		}
		last = wait
	}
	if b.spare(now) {
		t.Error("there is room for one that does not wait")
	}
	wait, giveBack := b.reserve(now)
	giveBack(now)
	if again, _ := b.reserve(now); again != wait {
		t.Errorf("the place at %v is given to nobody, the next one is at %v", wait, again)
	}
	if !b.spare(now + last + time.Minute) {
		t.Error("there is no room a minute after all")
	}
}
