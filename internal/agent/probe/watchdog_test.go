package probe_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/probe"
)

// TestWatchdog: silence counts as a failed look, once in each time; a word ends it.
func TestWatchdog(t *testing.T) {
	var last atomic.Int64
	var trouble atomic.Bool
	speak := func(r *rig) { last.Store(int64(r.Clock())) }
	bubble(t, func(t *testing.T, r *rig) {
		began := r.Clock()
		s := r.running(spec("", "", v1.Health{Watchdog: true, Every: secs(10), Failures: new(2)}))
		s.Run, s.StartedAt = "run-1", began
		r.Set(nginx(), s)
		for range 5 { // it says something each 9 seconds
			pass(9 * time.Second)
			speak(r)
		}
		for _, e := range r.take(true) {
			if !e.OK || e.Text != "ok" {
				t.Fatalf("%+v of a process that speaks", e)
			}
		}
		silent := r.Clock()
		pass(21 * time.Second)
		// One look is planned before the silence is too long.
		heard := slices.DeleteFunc(r.take(true), func(e told) bool { return e.OK })
		if len(heard) != 2 || heard[0].OK || heard[0].Bad || !heard[1].Bad ||
			heard[1].Text != "no WATCHDOG=1 for 10s" {
			t.Fatalf("%+v of a silent process", heard)
		}
		for i, e := range heard { // exactly one and two times later
			if at := e.at - (silent - began); at != time.Duration(i+1)*10*time.Second {
				t.Errorf("look %d after %v of silence", i, at)
			}
		}
		speak(r)
		pass(9500 * time.Millisecond)
		if heard := r.take(true); len(heard) != 1 || !heard[0].OK {
			t.Errorf("%+v after a word", heard)
		}
		// A process that is in trouble is unhealthy at once.
		speak(r)
		trouble.Store(true)
		r.Hurry(nginx())
		pass(0)
		heard = r.take(true)
		if len(heard) != 1 || !heard[0].Bad || !heard[0].Said || heard[0].Failures > 1 ||
			!strings.Contains(heard[0].Text, "itself said WATCHDOG=trigger") {
			t.Errorf("%+v of a process in trouble", heard)
		}
		// If the word is forgotten, as after an end of the agent, silence does not make the process healthy.
		trouble.Store(false)
		pass(11 * time.Second)
		if heard := r.take(true); len(heard) == 0 || !heard[0].Bad || heard[0].Said {
			t.Errorf("%+v of a process that is silent after its trouble", heard)
		}
	}, func(c *probe.Config) {
		c.Watchdog = func(run string) (time.Duration, bool) {
			if run != "run-1" {
				t.Errorf("asked for %q", run)
			}
			return time.Duration(last.Load()), trouble.Load()
		}
	})
}

// TestWatchdogWithoutASocket: a process that was started before it had a watchdog is not silent.
func TestWatchdogWithoutASocket(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Set(nginx(), r.running(spec("", "", v1.Health{Watchdog: true, Every: secs(10), Failures: new(1)})))
		pass(time.Minute)
		heard := r.take(true)
		if len(heard) == 0 {
			t.Fatal("no answer")
		}
		for _, e := range heard {
			if !e.OK || !strings.Contains(e.Text, "begins with the next start") {
				t.Errorf("%+v", e)
			}
		}
	})
}
