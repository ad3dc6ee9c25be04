package lifecycle_test

import (
	"testing"
	"time"

	"drover/internal/agent/lifecycle"
)

func bounds() lifecycle.Bounds {
	return lifecycle.Bounds{Flaps: 3, FlapWindow: 10 * time.Minute, BreachWindow: time.Hour}
}

func TestFlappingIsMoreRelaunchesThanAreBorneWithinTheWindow(t *testing.T) {
	var tally lifecycle.Tally
	for i, want := range []bool{false, false, false, true, true} {
		now := time.Duration(i) * time.Minute
		tally = tally.Relaunched(bounds(), now)
		if got := tally.Flapping(bounds(), now); got != want {
			t.Errorf("after %d relaunches: flapping is %v", i+1, got)
		}
	}
	if len(tally.Relaunches) > 4 {
		t.Errorf("%d relaunches are remembered: more than are ever looked at", len(tally.Relaunches))
	}
	if tally.Flapping(bounds(), 11*time.Minute+time.Second) != false {
		t.Error("still flapping when fewer than four relaunches are younger than the window")
	}
}

func TestBreachesOfTheLastHourAreCounted(t *testing.T) {
	var tally lifecycle.Tally
	spent := false
	for i := range 4 {
		tally, spent = tally.Breached(bounds(), time.Duration(i)*time.Minute, 4)
	}
	if spent {
		t.Fatal("spent after as many breaches as are borne")
	}
	if _, spent = tally.Breached(bounds(), 5*time.Minute, 4); !spent {
		t.Error("not spent after one breach more than is borne")
	}
	if _, spent = tally.Breached(bounds(), 61*time.Minute+time.Second, 4); spent {
		t.Error("a breach of more than an hour ago was counted")
	}
}
