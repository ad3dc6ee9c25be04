package operation_test

import (
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/operation/operationtest"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// TestReloadIsQuick: a reload ends as soon as the readiness test passes again. What the process says only once, at its
// start, it need not say again.
func TestReloadIsQuick(t *testing.T) {
	for name, tt := range map[string]struct {
		ready v1.Ready
		// code is the exit status of the test.
		code  int
		took  time.Duration
		fault process.Fault
	}{
		"exec":   {ready: v1.Ready{Exec: "is-ready"}},
		"broken": {ready: v1.Ready{Exec: "is-ready"}, code: 1, took: 30 * time.Second, fault: process.CheckFailed},
		"log":    {ready: v1.Ready{Log: "up"}, took: time.Second},
		"notify": {ready: v1.Ready{NotifyFD: new(3)}, took: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.Script(runLine, operationtest.Script{Takes: time.Hour})
				w.Script("again", operationtest.Script{})
				s := foreground()
				r, _ := w.operate(t, process.Start, s, record.Runtime{})
				s.Reload = &v1.Reload{Command: "again"}
				s.Ready = &tt.ready
				w.Script("is-ready", operationtest.Script{Code: tt.code})
				r, took := w.operate(t, process.Reload, s, r.Runtime)
				if r.Outcome.Fault != tt.fault || took != tt.took {
					t.Errorf("%+v after %s, want %q after %s", r.Outcome, took, tt.fault, tt.took)
				}
			})
		})
	}
}

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
			started, _ := w.operate(t, process.Start, s, record.Runtime{})
			w.Fork(*started.Runtime.Process, "worker")
			r, _ := w.operate(t, tt.op, s, started.Runtime)
			if !strings.Contains(r.Outcome.Text, tt.want) || len(w.Signals()) != tt.to {
				t.Errorf("%s: %+v, signals %v", tt.op, r.Outcome, w.Signals())
			}
		})
	}
	bubble(t, func(t *testing.T, w *world) {
		r, _ := w.operate(t, process.SignalOp("HUP", false), foreground(), record.Runtime{})
		if r.Outcome.Fault != process.NotRunning || len(w.Signals()) > 0 {
			t.Errorf("%+v", r.Outcome)
		}
	})
}
