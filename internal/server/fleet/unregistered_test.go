package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"drover/internal/server/fleet"
)

// TestUnregistered: agents that report in vain are remembered for a while, and any number of invented keys neither
// takes memory nor pushes out an agent that is there.
func TestUnregistered(t *testing.T) {
	var u fleet.Unregistered
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	if list := u.List(now); len(list) != 0 {
		t.Errorf("at first there are %v", list)
	}
	u.Reported(3, "K", now)
	u.Reported(0, "L", now.Add(time.Second))
	for i := range 5000 {
		u.Reported(0, fmt.Sprint("invented ", i), now.Add(2*time.Second))
	}
	u.Reported(3, "K", now.Add(time.Minute))
	list := u.List(now.Add(time.Minute))
	if len(list) != 1000 || list[0] != (fleet.UnregisteredAgent{Key: "K", Area: 3, First: now, Last: now.Add(time.Minute)}) ||
		list[1].Key != "L" {
		t.Errorf("there are %d, at first %+v", len(list), list[:2])
	}
	u.Reported(0, "late", now.Add(6*time.Minute)) // the others have gone
	if list = u.List(now.Add(6 * time.Minute)); len(list) != 2 || list[1].Key != "late" {
		t.Errorf("after the others have gone there are %+v", list)
	}
	u.Joined("K")
	if list = u.List(now.Add(6 * time.Minute)); len(list) != 1 {
		t.Errorf("an agent that has joined again is left: %+v", list)
	}
}
