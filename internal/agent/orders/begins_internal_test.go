package orders

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/record"
	"drover/internal/process"
)

// TestReceiptTellsOfBeginnings: a receipt says which of its commands have begun, and with which limits. It waits for
// them only for a moment, and not for those that have ended already.
func TestReceiptTellsOfBeginnings(t *testing.T) {
	commands := []record.Entry{{Item: "a", Op: process.Start}, {Item: "b", Op: process.Stop}}
	for name, c := range map[string]struct {
		do   func(tracker *Tracker, cancel func())
		want map[string]int
		took time.Duration
	}{
		"all begin": {func(tracker *Tracker, _ func()) {
			tracker.Began("a", 65*time.Second)
			tracker.Began("elsewhere", time.Hour)
			tracker.Began("b", 0)
		}, map[string]int{"a": 65, "b": 1}, 0},
		"one waits": {func(tracker *Tracker, _ func()) {
			tracker.Began("a", 65*time.Second)
		}, map[string]int{"a": 65}, beginWithin},
		"one has ended unbegun": {func(tracker *Tracker, _ func()) {
			tracker.Finished("b", process.NotBegun())
			tracker.Began("a", time.Second)
		}, map[string]int{"a": 1}, 0},
		"one has ended": {func(tracker *Tracker, _ func()) {
			tracker.Began("b", time.Second)
			tracker.Finished("b", process.Outcome{})
			tracker.Began("a", time.Second)
		}, map[string]int{"a": 1, "b": 1}, 0},
		"the agent stops": {func(_ *Tracker, cancel func()) { cancel() }, map[string]int{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			desks(t, func(t *testing.T, d *desk) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := d.tracker.begins.expect(commands)
				began := time.Now()
				go c.do(d.tracker, cancel)
				if got := d.tracker.begins.await(ctx, w); !maps.Equal(got, c.want) {
					t.Errorf("begun are %v, want %v", got, c.want)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				d.tracker.Began("b", time.Hour) // late: the receipt is gone
				synctest.Wait()
				if len(d.tracker.begins.open) > 0 {
					t.Errorf("left over: %v", d.tracker.begins.open)
				}
			})
		})
	}
	desks(t, func(t *testing.T, d *desk) {
		began := time.Now()
		if got := d.tracker.begins.await(t.Context(), d.tracker.begins.expect(nil)); len(got) > 0 || time.Since(began) > 0 {
			t.Errorf("no command has begun: %v", got)
		}
	})
}
