package host_test

import (
	"strings"
	"syscall"
	"testing"

	"drover/internal/agent/liveness"
	"drover/internal/process"
)

// TestHardLimits: what a command takes beyond its limit ends it, which can be told from any other SIGKILL; without
// controllers the answer is that it is not limited.
func TestHardLimits(t *testing.T) {
	h := open(t, t.TempDir())
	if notes := h.LimitNotes(process.HardLimits{}); len(notes) > 0 {
		t.Errorf("no limits: %q", notes)
	}
	hard := process.HardLimits{Memory: 32 << 20}
	if notes := h.LimitNotes(hard); len(notes) > 0 {
		if !strings.HasPrefix(notes[0], "hard_limits.memory cannot be enforced on this host: no ") {
			t.Errorf("notes %q", notes)
		}
		return // an ordinary user's host
	}
	hog := spec("/", "tail", "")
	hog.Hard = hard
	for run, c := range map[string]struct {
		line string
		oom  bool
	}{
		"hog": {
			"x=aaaaaaaaaaaaaaaa; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do x=$x$x; done", true,
		},
		"end": {"kill -9 $$", false},
	} {
		child, err := h.Launch(process.ID{}, run, c.line, hog)
		if err != nil {
			t.Fatal(err)
		}
		exits := make(chan liveness.Exit, 1)
		stop, err := h.Watch(child.Identity(), func(e liveness.Exit) { exits <- e })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		if err := child.Release(); err != nil {
			t.Fatal(err)
		}
		if e := <-exits; !e.Known || e.Signal != syscall.SIGKILL {
			t.Errorf("%s ended with %s", run, e)
		}
		if n := h.OOM(run); n > 0 != c.oom {
			t.Errorf("%s: %d were ended for want of memory", run, n)
		}
		h.Discard(run)
		if h.OOM(run) != 0 {
			t.Errorf("%s: OOM of a run that is gone", run)
		}
	}
}
