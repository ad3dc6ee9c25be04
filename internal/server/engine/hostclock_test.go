package engine_test

import (
	"testing"
	"time"

	"drover/internal/wire"
)

// TestTheClockOfAHost: a report that waits under way, or an answer that did, makes no clock look wrong.
func TestTheClockOfAHost(t *testing.T) {
	for _, c := range []struct {
		name string
		// sealed is when the report was sealed by what the host knows of the servers' clock, and of is the clock of the
		// host then; both by the moment when the server takes the report.
		sealed, of, want time.Duration
	}{
		{"both agree", 0, 0, 0},
		{"the report waited", -40 * time.Second, -40 * time.Second, 0},
		{"the answer before waited", -40 * time.Second, -10 * time.Second, 0},
		{"ahead", 0, time.Minute, time.Minute},
		{"ahead, and the report waited", -10 * time.Second, 50 * time.Second, 50 * time.Second},
		{"behind", 0, -time.Minute, -time.Minute},
		{"behind, and the report waited", -30 * time.Second, -90 * time.Second, -time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				now := time.Now()
				r.reportOf(now.Add(c.sealed), "agent-0", wire.Report{At: now.Add(c.of).UnixMilli()})
				if p := r.directory.Presence("agent-0", now); p.Ahead != c.want {
					t.Errorf("the clock is ahead by %v, want %v", p.Ahead, c.want)
				}
			})
		})
	}
}
