package supervisor_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/process"
)

// TestHistoryOfOperations: each operation is told as what it was, with what was true before and after.
func TestHistoryOfOperations(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Register, "a", s)
		r.do(process.Update, "a", s)
		r.do(process.Start, "a", s)
		first := r.instance("a").PID
		r.do(process.Restart, "a", s)
		second := r.instance("a").PID
		restarted := r.lastEvent(process.EventRestarted)
		if text := restarted.Cause.Text; !strings.Contains(text, fmt.Sprintf("pid %d ", first)) ||
			!strings.Contains(text, fmt.Sprintf("pid %d has its place", second)) || restarted.PID != second ||
			restarted.Exit == nil {
			t.Errorf("the restart of pid %d to %d: %+v", first, second, restarted)
		}
		r.do(process.Kill, "a", nil)
		if e := r.lastEvent(process.EventKilled); e.PID != second {
			t.Errorf("the kill of pid %d: %+v", second, e)
		}
		r.do(process.Start, "a", s)
		r.do(process.Stop, "a", s)
		r.do(process.Start, "a", s)
		left := r.instance("a").PID
		r.do(process.Unregister, "a", nil)
		if e := r.lastEvent(process.EventUnregistered); e.PID != left {
			t.Errorf("pid %d was left alone: %+v", left, e)
		}
		// It still runs, and nobody knows it.
		r.do(process.Register, "a", s)
		r.do(process.Unregister, "a", nil)
		r.do(process.Host, "a", s)
		r.do(process.Unregister, "a", nil)
		r.do(process.Stop, "a", s)
		want := []string{
			"registered stopped→stopped", "updated stopped→stopped", "started stopped→running",
			"restarted running→running", "killed running→stopped",
			"started stopped→running", "stopped running→stopped", "started stopped→running",
			"unregistered running→running",
			"registered running→running", "unregistered running→running", "hosted running→running",
			"unregistered running→running",
			"stopped running→stopped",
		}
		if d := cmp.Diff(want, r.sink.history(id("a"))); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

// TestEndWhileNobodyLooked: what is said of an end names one process, that which has ended, and not those that ended
// before it.
func TestEndWhileNobodyLooked(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.pass(time.Minute)
		r.killed("a")
		r.pass(time.Minute)
		second := r.instance("a")
		r.kill()
		r.Kill(file("a"))
		r.begin()
		r.pass(10 * time.Millisecond)
		e := r.lastEvent(process.EventExited)
		text := strings.Join(append([]string{e.Cause.Text}, e.Cause.Evidence...), " ")
		pids := regexp.MustCompile(`pid (\d+)`).FindAllString(text, -1)
		if e.Cause.ID != process.CauseUnseen || e.PID != second.PID || len(pids) == 0 ||
			strings.Contains(text, "relaunched") {
			t.Errorf("the event is %+v", e)
		}
		for _, pid := range pids {
			if pid != fmt.Sprintf("pid %d", second.PID) {
				t.Errorf("of the end of pid %d it says %q", second.PID, text)
			}
		}
	})
}

// TestRestartsOfALife: how often it was started again counts from the last start by somebody.
func TestRestartsOfALife(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		for range 2 {
			r.pass(time.Minute)
			r.killed("a")
		}
		r.pass(time.Minute)
		if got := r.state("a", "running", true); got.Restarts != 2 {
			t.Errorf("%d restarts, want 2", got.Restarts)
		}
		r.do(process.Stop, "a", s)
		if got := r.state("a", "stopped", false); got.Restarts != 2 {
			t.Errorf("%d restarts after the stop, want 2", got.Restarts)
		}
		r.do(process.Start, "a", s)
		if got := r.state("a", "running", true); got.Restarts != 0 {
			t.Errorf("%d restarts after the next start, want none", got.Restarts)
		}
	})
}
