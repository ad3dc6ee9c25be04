package process_test

import (
	"testing"

	"drover/internal/process"
)

func TestExitCause(t *testing.T) {
	for name, c := range map[string]struct {
		exit *process.Exit
		want process.CauseID
	}{
		"none":                     {nil, process.CauseUnseen},
		"nobody's child":           {&process.Exit{Code: 1}, process.CauseUnseen},
		"well":                     {&process.Exit{Known: true}, process.CauseExited},
		"with a status":            {&process.Exit{Known: true, Code: 1}, process.CauseExitStatus},
		"by a signal":              {&process.Exit{Known: true, Signal: 9}, process.CauseSignal},
		"with a core":              {&process.Exit{Known: true, Signal: 11, Core: true}, process.CauseCore},
		"for want of memory":       {&process.Exit{Known: true, Signal: 9, OOM: true}, process.CauseOOM},
		"the same, nobody's child": {&process.Exit{OOM: true}, process.CauseOOM},
	} {
		if got := c.exit.Cause(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
