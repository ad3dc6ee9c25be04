package supervisor_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

func overMem() process.Breach {
	return process.Breach{Resource: "mem", Limit: 10, Samples: []float64{11, 12, 13}}
}

// TestBreach: who is over a limit is ended by the stop command, relaunched, and given up after one breach more than it
// may be relaunched, however long it ran in between; and a restart of the agent forgets none of that.
func TestBreach(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Compat.StartRetries = 2
		r.do(process.Start, "a", s)
		for range 2 {
			r.Exceeded(id("a"), r.instance("a"), overMem())
			r.pass(0)
			if s := r.state("a", "stopping", true); s.Cause.ID != process.CauseMemLimit ||
				!strings.Contains(s.Message, "11.0, 12.0, 13.0 % of the host's memory, but may use 10 %") {
				t.Errorf("while it is ended: %+v", s)
			}
			r.pass(20 * time.Second)
			r.state("a", "running", true)
			r.pass(10 * time.Minute)
			r.kill()
			r.begin()
			r.pass(5 * time.Minute)
		}
		want := []string{"start a", "stop a", "start a", "stop a", "start a"}
		r.ran(want...)
		r.Exceeded(id("a"), r.instance("a"), overMem())
		r.pass(time.Minute)
		got := r.state("a", "given-up", true)
		if got.Cause.ID != process.CauseMemLimit ||
			!strings.Contains(got.Message, "given up after 3 breaches of a limit") {
			t.Errorf("given up as %+v", got)
		}
		if d := cmp.Diff([]string{
			"limit-exceeded running→stopping memory-limit",
			"taken-down stopping→given-up memory-limit", "given-up stopping→given-up memory-limit",
		},
			r.sink.history(id("a"))); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}

		// Neither a failed operation nor a restart of the agent brings it back; a retry does, with all its tries.
		r.submit(process.Reload, "a", nil)
		r.pass(time.Hour)
		r.kill()
		r.begin()
		r.pass(time.Hour)
		r.state("a", "given-up", true)
		r.do(process.Retry, "a", nil)
		r.pass(time.Minute)
		r.state("a", "running", true)
		r.Exceeded(id("a"), r.instance("a"), overMem())
		r.pass(time.Minute)
		r.state("a", "running", true)
	})
}

// TestBreachOfAnother: what is told of an instance that is not there any more, or of one that an operation holds, ends
// nobody.
func TestBreachOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		was := r.instance("a")
		r.do(process.Restart, "a", r.spec("a"))
		r.Exceeded(id("a"), was, overMem())
		r.pass(time.Second)
		r.state("a", "running", true)
		item := r.submit(process.Reload, "a", r.spec("a"))
		r.Exceeded(id("a"), r.instance("a"), overMem())
		r.Exceeded(id("b"), was, overMem())
		r.pass(time.Minute)
		r.expect(item, process.None, process.Success)
		r.state("a", "running", true)
	})
}

// TestBreachOfASingleRun: it is ended and stays down, with how it ended.
func TestBreachOfASingleRun(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Once, s.Stop = true, ""
		r.do(process.Start, "a", s)
		r.Exceeded(id("a"), r.instance("a"), overMem())
		r.pass(time.Hour)
		got := r.state("a", "finished", true)
		if got.Cause.ID != process.CauseMemLimit || got.LastExit == nil || got.LastExit.Signal != int(syscall.SIGTERM) {
			t.Errorf("status %+v", got)
		}
		if len(got.Runs) != 1 || got.Runs[0].Ended == 0 || got.Runs[0].Exit.Signal != int(syscall.SIGTERM) {
			t.Errorf("runs %+v", got.Runs)
		}
		r.ran("start a")
	})
}

// TestAgentDiesWhileItEndsAProcess: its successor goes on, runs the stop command no second time, ends what is left of
// the tree, and knows why.
func TestAgentDiesWhileItEndsAProcess(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // the breach
		gone  bool          // while no agent is there
		final bool
	}{
		{"before the stop command has ended", 500 * time.Millisecond, false, false},
		{"after the process is gone", 0, true, false},
		{"for good", 500 * time.Millisecond, false, true},
		{"for good, and gone", 0, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				s.Compat.StartRetries = 1
				r.do(process.Start, "a", s)
				breaches := 1
				if c.final {
					r.Exceeded(id("a"), r.instance("a"), overMem())
					r.pass(time.Minute)
					breaches++
				}
				who := r.instance("a")
				r.Exceeded(id("a"), who, overMem())
				r.pass(c.after)
				r.kill()
				if c.gone {
					r.pass(time.Minute)
					r.End(who, liveness.Exit{})
				}
				r.begin()
				r.pass(0)
				if !c.gone {
					if s := r.state("a", "stopping", true); s.Cause.ID != process.CauseMemLimit {
						t.Errorf("status %+v", s)
					}
				}
				r.pass(time.Minute)
				stops := 0
				for _, l := range r.Lines() {
					if l == "stop a" {
						stops++
					}
				}
				if stops > breaches {
					t.Errorf("commands %q: a stop command was run twice", r.Lines())
				}
				if ends := r.Ends(); len(ends) == 0 || ends[len(ends)-1].Root != who &&
					ends[max(0, len(ends)-2)].Root != who {
					t.Errorf("%v: the tree of %v was not ended", ends, who)
				}
				want := []string{
					"taken-down stopping→starting memory-limit",
					"relaunched starting→running memory-limit",
				}
				state := "running"
				if c.final {
					want = []string{
						"taken-down stopping→given-up memory-limit",
						"given-up stopping→given-up memory-limit",
					}
					state = "given-up"
				}
				r.state("a", state, true)
				if d := cmp.Diff(want, r.sink.history(id("a"))); d != "" {
					t.Errorf("events (-want +got):\n%s", d)
				}
			})
		})
	}
}

// TestBreachOfOneWhoWillNotGo: it is told, and the process is watched on.
func TestBreachOfOneWhoWillNotGo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Start, "a", s)
		who := r.instance("a")
		r.Script(line("stop", "a"), operationtest.Script{Takes: time.Second, Code: 1, Output: "refused"})
		r.OnEndTree = func(operationtest.End) ([]int, error) { return []int{who.PID}, instance.ErrBestEffort }
		r.Exceeded(id("a"), who, overMem())
		r.pass(time.Minute)
		got := r.state("a", "running", true)
		if !strings.Contains(got.Message, "could not end pids") {
			t.Errorf("message %q", got.Message)
		}
		if d := cmp.Diff([]string{
			"started →running", "limit-exceeded running→stopping memory-limit",
			"operation-failed stopping→running stop-failed",
		}, trimmed(r.sink.history(id("a")))); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		r.OnEndTree = nil
		r.Kill(file("a"))
		r.pass(time.Minute)
		r.state("a", "running", true)
	})
}

// trimmed leaves out where a first start came from.
func trimmed(events []string) []string {
	for i, e := range events {
		events[i] = strings.Replace(strings.Replace(e, "unknown→", "→", 1), "stopped→running", "→running", 1)
	}
	return events
}

// TestEndSeenByTheOperationOnly: the event of a stop tells how the instance of that stop ended, not an earlier one.
func TestEndOfAStop(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		r.Exit(r.instance("a"), 3)
		r.pass(time.Minute)
		r.do(process.Stop, "a", r.spec("a"))
		var stopped process.Event
		for _, e := range r.sink.all(id("a")) {
			if e.Kind == process.EventStopped {
				stopped = e
			}
		}
		if stopped.Exit == nil || stopped.Exit.Code == 3 || stopped.PID == 0 || stopped.RunTime < 30_000 {
			t.Errorf("told as %+v, %+v", stopped, stopped.Exit)
		}
	})
}

// all returns the events of a process.
func (s *sink) all(id process.ID) []process.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []process.Event
	for _, e := range s.events {
		if e.Process == id {
			list = append(list, e)
		}
	}
	return list
}
