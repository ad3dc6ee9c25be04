package operation_test

import (
	"strings"
	"testing"
	"time"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// TestSignal: a signal reaches the main process, or all of its run; what is down gets none, and a bad name is refused.
func TestSignal(t *testing.T) {
	for _, tt := range []struct {
		op   process.Op
		want string
		to   int
	}{
		{process.SignalOp("HUP", false), "HUP sent to pid", 1},
		{process.SignalOp("USR1", true), "and 1 process of its run", 2},
		{"signal:HUP:all", "there is no operation", 0},
		{"signal:NONE", "there is no operation", 0},
		{"signal", "there is no operation", 0},
		{"stop:HUP", "there is no operation", 0},
	} {
		bubble(t, func(t *testing.T, w *world) {
			w.Script(runLine, operationtest.Script{Takes: time.Hour})
			s := foreground()
			started, _ := w.operate(t, process.Start, s, specstore.Runtime{})
			w.Fork(*started.Runtime.Process, "worker")
			r, _ := w.operate(t, tt.op, s, started.Runtime)
			if !strings.Contains(r.Outcome.Text, tt.want) || len(w.Signals()) != tt.to {
				t.Errorf("%s: %+v, signals %v", tt.op, r.Outcome, w.Signals())
			}
		})
	}
	bubble(t, func(t *testing.T, w *world) {
		r, _ := w.operate(t, process.SignalOp("HUP", false), foreground(), specstore.Runtime{})
		if r.Outcome.Fault != process.NotRunning || len(w.Signals()) > 0 {
			t.Errorf("%+v", r.Outcome)
		}
	})
}
