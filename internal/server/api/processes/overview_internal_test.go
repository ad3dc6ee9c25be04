package processes

import (
	"testing"
	"time"

	v1 "drover/api/v1"
)

// TestOverviewOfALargeFleet: an overview is shared for ten times as long as the counting took.
func TestOverviewOfALargeFleet(t *testing.T) {
	var o overviews
	clock, counts := time.Unix(1e9, 0), 0
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {time.Second, 1}, {28 * time.Second, 1}, {time.Second, 2}, {29 * time.Second, 2}} {
		clock = clock.Add(step.later)
		_, err := o.get("admin", time.Second, func() time.Time { return clock }, func() (v1.Overview, error) {
			counts++
			clock = clock.Add(3 * time.Second)
			return v1.Overview{}, nil
		})
		if err != nil || counts != step.want {
			t.Errorf("%v later: counted %d times, %v, want %d", step.later, counts, err, step.want)
		}
	}
}
