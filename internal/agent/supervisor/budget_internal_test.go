package supervisor

import (
	"testing"
	"time"
)

// TestTenThousandPlaces: all have a place within the time that the rate allows, in the order in which they asked; a
// place that is given back is not lost.
func TestTenThousandPlaces(t *testing.T) {
	const many, burst, rate = 10000, 500, 100
	b := newBudget(burst, rate, 0)
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

// TestHostsDiffer: budgets of several hosts wait a different time before the places beyond the burst, and none before
// those within it. The rate stays.
func TestHostsDiffer(t *testing.T) {
	const spread = 5 * time.Second
	delays := map[time.Duration]bool{}
	for range 20 {
		b := newBudget(1, 10, spread)
		if wait, _ := b.reserve(time.Hour); wait != 0 {
			t.Errorf("the first place is after %v", wait)
		}
		first, _ := b.reserve(time.Hour)
		second, _ := b.reserve(time.Hour)
		if delay := first - 100*time.Millisecond; delay < 0 || delay > spread || (second-first-100*time.Millisecond).Abs() > time.Millisecond {
			t.Errorf("the places are after %v and %v", first, second)
		}
		delays[first] = true
	}
	if len(delays) < 15 {
		t.Errorf("20 hosts have only %d delays", len(delays))
	}
}
