package budget

import (
	"testing"
	"time"
)

// TestTenThousandPlaces: all have a place within the time that the rate allows, in the order in which they asked; a
// place that is given back is not lost.
func TestTenThousandPlaces(t *testing.T) {
	const many, burst, rate = 10000, 500, 100
	b := New(burst, rate, 0)
	now := 5 * time.Hour
	var places []*Place
	for i := range many {
		p := b.Enter("ns", false)
		wait := b.Turn(p, now)
		want := max(0, time.Duration(i+1-burst)*time.Second/rate)
		if diff := wait - want; diff.Abs() > time.Millisecond {
			t.Fatalf("place %d is after %v, want %v", i, wait, want)
		}
		if wait > 0 {
			places = append(places, p)
		}
	}
	if b.Spare(now) {
		t.Error("there is room for one that does not wait")
	}
	b.Leave(places[0])
	for i, p := range places[1:] {
		if wait := b.Turn(p, now+time.Duration(i+1)*time.Second/rate+time.Millisecond); wait != 0 {
			t.Fatalf("place %d waits for another %v", i, wait)
		}
	}
	if !b.Spare(now + time.Hour) {
		t.Error("there is no room an hour after all")
	}
}

// TestAStormTakesNobodyElsesPlaces: beside 5,000 places of a namespace whose processes keep failing, a process of
// another namespace is the next or the second; one that has just been good is before them in the same namespace, too.
func TestAStormTakesNobodyElsesPlaces(t *testing.T) {
	const rate = 10
	b := New(1, rate, 5*time.Second)
	b.delay = 5 * time.Second
	now := time.Hour
	for range 5000 {
		b.Turn(b.Enter("storm", false), now)
	}
	for _, c := range []struct {
		namespace string
		good      bool
		most      time.Duration
	}{
		{"other", true, time.Second / rate},
		{"storm", true, 2 * time.Second / rate},
		{"third", false, 4*time.Second/rate + b.delay},
	} {
		if wait := b.Turn(b.Enter(c.namespace, c.good), now); wait > c.most+time.Millisecond {
			t.Errorf("a process of %s, good %t, waits for %v", c.namespace, c.good, wait)
		}
	}
}

// TestHostsDiffer: budgets of several hosts wait a different time before the places beyond the burst, and none before
// those within it. The rate stays.
func TestHostsDiffer(t *testing.T) {
	const spread = 5 * time.Second
	delays := map[time.Duration]bool{}
	for range 20 {
		b := New(1, 10, spread)
		take := func() time.Duration { return b.Turn(b.Enter("ns", false), time.Hour) }
		if wait := take(); wait != 0 {
			t.Errorf("the first place is after %v", wait)
		}
		first, second := take(), take()
		if delay := first - 100*time.Millisecond - time.Millisecond/10; delay < 0 || delay > spread ||
			(second-first-100*time.Millisecond).Abs() > time.Millisecond {
			t.Errorf("the places are after %v and %v", first, second)
		}
		delays[first] = true
	}
	if len(delays) < 15 {
		t.Errorf("20 hosts have only %d delays", len(delays))
	}
}
