package supervisor_test

import (
	"slices"
	"testing"
	"time"

	"drover/internal/process"
)

// records returns what was recorded of a process so far.
func (r *rig) records(name string) (all []process.Event) {
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	for _, e := range r.sink.shown {
		if e.Process == id(name) {
			all = append(all, e)
		}
	}
	return all
}

// TestRecords: each state that lists show is recorded once, with the time of its beginning; also the operation under
// way, and the removal.
func TestRecords(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.pass(time.Minute)
		r.do(process.Stop, "a", nil)
		r.do(process.Unregister, "a", nil)
		var states []string
		last := int64(0)
		for _, e := range r.records("a") {
			if n := len(states); n == 0 || states[n-1] != e.Shown.State {
				states = append(states, e.Shown.State)
			}
			if e.At < last || e.Shown.Since > e.At {
				t.Errorf("%+v of %d comes after %d", e.Shown, e.At, last)
			}
			last = e.At
		}
		want := []string{process.StateRunning, process.StateOperating, process.StateStopped, process.StateOperating, ""}
		if got := len(states); got < len(want) || !slices.Equal(states[got-len(want):], want) {
			t.Errorf("recorded are %q, want %q at the end", states, want)
		}
		if all := r.records("a"); !all[len(all)-1].Shown.Gone {
			t.Errorf("the last record is %+v", all[len(all)-1].Shown)
		}
	})
}

// TestRecordsAgain: after a loss, and once a day, a process is recorded although nothing has changed.
func TestRecordsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.pass(time.Hour)
		before := r.records("a")
		r.pass(time.Hour)
		if n := len(r.records("a")); n != len(before) {
			t.Fatalf("a quiet hour has %d records", n-len(before))
		}
		r.RecordAll()
		r.pass(time.Second)
		again := r.records("a")
		if len(again) != len(before)+1 || *again[len(before)].Shown != *before[len(before)-1].Shown ||
			again[len(before)].At == before[len(before)-1].At {
			t.Errorf("after a loss there are %+v, before %+v", again, before)
		}
		r.pass(25 * time.Hour)
		if n := len(r.records("a")); n != len(again)+1 {
			t.Errorf("a quiet day has %d records, want one", n-len(again))
		}
	})
}
