package supervisor_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/process"
)

// TestRestartedFromOutside: an instance that somebody else has put in the place of ours is watched like ours.
func TestRestartedFromOutside(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Start, "a", r.spec("a"))
		old := r.instance("a")
		r.pass(10 * time.Second)
		who := r.Spawn("a", file("a"), "")
		r.Exit(old, 0)
		r.pass(time.Second)
		s := r.state("a", "running", true)
		if s.Instance.PID != who.PID || !strings.Contains(s.Message, "another program started pid 102") ||
			s.LastStartAt != s.Instance.StartedAt {
			t.Errorf("status %+v", s)
		}
		if n := r.Watched(who); n != 1 {
			t.Errorf("the new instance is watched %d times", n)
		}
		r.Kill(file("a"))
		r.pass(2 * time.Second)
		r.ran("start a", "start a")
		r.state("a", "running", true)
	})
}

// TestStartedFromOutside: whoever starts a process that is down, stopped or waiting is found by the regular listing,
// and no second one is started.
func TestStartedFromOutside(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(r *rig, s *process.Spec)
		ran  []string
	}{
		{"stopped", func(r *rig, s *process.Spec) { r.do(process.Stop, "a", s) }, []string{"start a", "stop a"}},
		{"backoff", func(r *rig, s *process.Spec) {
			r.starts("a", crashing(r, "a", time.Second))
			r.Kill(file("a"))
			r.pass(3 * time.Second)
			r.state("a", "backoff", true)
		}, []string{"start a", "start a"}},
		{"given up", func(r *rig, s *process.Spec) {
			r.starts("a", crashing(r, "a", time.Second))
			r.Kill(file("a"))
			r.pass(time.Hour)
			r.state("a", "given-up", true)
		}, []string{"start a", "start a", "start a", "start a", "start a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				r.do(process.Start, "a", s)
				c.set(r, s)
				who := r.Spawn("a", file("a"), "")
				r.pass(31 * time.Second)
				if c.name == "given up" { // it was flapping, and this run has not lasted yet
					r.state("a", "flapping", true)
					r.pass(time.Minute)
				}
				got := r.state("a", "running", c.name != "stopped")
				if got.Instance.PID != who.PID || r.Watched(who) != 1 ||
					!strings.Contains(got.Message, "another program started") {
					t.Errorf("status %+v, watched %d times", got, r.Watched(who))
				}
				r.ran(c.ran...)
			})
		})
	}
}

// TestUnwatchable: where a process cannot be watched, the regular listing sees its end, and its successor.
func TestUnwatchable(t *testing.T) {
	for _, successor := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			r.do(process.Start, "a", r.spec("a"))
			r.kill()
			old := r.instance("a")
			r.WatchError = func(who instance.Identity) error {
				if who == old {
					return syscall.EMFILE
				}
				return nil
			}
			r.begin()
			r.state("a", "running", true)
			r.Kill(file("a"))
			if successor {
				r.Spawn("a", file("a"), "")
			}
			r.pass(33 * time.Second)
			s := r.state("a", "running", true)
			if who := r.instance("a"); who == old || s.Instance.PID != who.PID || r.Watched(who) != 1 {
				t.Errorf("successor %v: %v is watched %d times, status %+v", successor, who, r.Watched(who), s)
			}
			if n := len(r.Lines()); (n == 1) != successor {
				t.Errorf("successor %v: %v have run", successor, r.Lines())
			}
		})
	}
}

// TestDeathBeforeTheWatch: a process that ends between the look and the watch is not taken for a running one.
func TestDeathBeforeTheWatch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		r.do(process.Register, "a", s)
		who := r.Spawn("a", file("a"), "")
		r.WatchError = func(other instance.Identity) error {
			if other == who {
				r.Exit(who, 1)
			}
			return nil
		}
		r.do(process.Host, "a", s)
		r.pass(5 * time.Second)
		r.state("a", "running", true)
		r.ran("start a")
	})
}
