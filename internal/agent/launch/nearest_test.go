package launch_test

import (
	"testing"

	"drover/internal/agent/launch"
	"drover/internal/process"
)

// TestNearest: a command gets what the host can give, and the rest is told.
func TestNearest(t *testing.T) {
	most, low := launch.AsSet("open_files", process.Unlimited), int64(16)
	beyond := most + 1
	e := process.Execution{RLimits: process.RLimits{OpenFiles: &beyond, Processes: &low}}
	got, notes := launch.Nearest(e)
	if len(notes) != 1 || got.RLimits.OpenFiles == nil || *got.RLimits.OpenFiles > most || *got.RLimits.Processes != low {
		t.Errorf("%+v, %q", got.RLimits, notes)
	}
	if *e.RLimits.OpenFiles != beyond {
		t.Error("it has changed the spec")
	}
	if _, notes := launch.Nearest(got); len(notes) > 0 {
		t.Errorf("what it gives it cannot give: %q", notes)
	}
}
