package supervisor_test

import (
	"slices"
	"testing"
	"time"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/supervisor"
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

// TestRecords: each state that lists show is recorded once, with the time of its beginning; also an operation that takes
// long, and the removal.
func TestRecords(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.pass(time.Minute)
		end := func(string) { r.Kill(file("a")) }
		r.Script(line("stop", "a"), operationtest.Script{Takes: 2 * supervisor.ShowAfter, End: end})
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
		want := []string{process.StateRunning, process.StateStopping, process.StateStopped, ""}
		if got := len(states); got < len(want) || !slices.Equal(states[got-len(want):], want) {
			t.Errorf("recorded are %q, want %q at the end", states, want)
		}
		if all := r.records("a"); !all[len(all)-1].Shown.Gone {
			t.Errorf("the last record is %+v", all[len(all)-1].Shown)
		}
	})
}

// TestShortOperationsAreToldOnce: the server learns of a short operation only when it is over. The state of a restarted
// process begins anew.
func TestShortOperationsAreToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.copy("a", 0))
		r.pass(time.Minute)
		for _, ready := range []time.Duration{0, 2 * supervisor.ShowAfter} {
			told, records, began := r.sink.changes(), len(r.records("a")), time.Now()
			r.ordered(process.Restart, map[string]*process.Spec{"a": r.copy("a", ready)}, "a")
			r.pass(supervisor.ShowAfter / 2)
			if n := r.sink.changes() - told; ready == 0 && n != 1 || ready > 0 && n != 0 {
				t.Errorf("a restart that is ready after %v is told %d times", ready, n)
			}
			r.pass(time.Minute)
			if n := r.sink.changes() - told; ready > 0 && n < 2 {
				t.Errorf("a long restart is told %d times", n)
			}
			all := r.records("a")
			if n := len(all) - records; ready == 0 && n != 1 {
				t.Errorf("a restart has %d records", n)
			}
			if last := all[len(all)-1].Shown; last.Since < began.UnixMilli() {
				t.Errorf("the new instance is recorded as %+v", last)
			}
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
