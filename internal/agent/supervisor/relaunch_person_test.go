package supervisor_test

import (
	"slices"
	"testing"
	"time"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// TestAPersonGoesBeforeEveryRelaunch: the next relaunch of a process is due as soon as the last one has failed, and
// each operation of a person comes first all the same. What ends the process ends the relaunch under way, too.
func TestAPersonGoesBeforeEveryRelaunch(t *testing.T) {
	for op, within := range map[process.Op]time.Duration{
		process.Stop: 2 * time.Second, process.Kill: 2 * time.Second, process.Unhost: 2 * time.Second,
		process.Unregister: 20 * time.Second, process.Restart: 20 * time.Second, process.Start: 20 * time.Second,
		process.Reload: 20 * time.Second, process.SignalOp("HUP", false): 20 * time.Second,
	} {
		t.Run(string(op), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				s.Compat.StartRetries, s.Compat.StartInterval = 100000, 1
				r.do(process.Start, "a", s)
				r.starts("a", operationtest.Script{Takes: 3 * time.Second}) // nothing appears
				r.Kill(file("a"))
				r.pass(time.Minute + 500*time.Millisecond)
				item := r.ordered(op, map[string]*process.Spec{"a": s}, "a")["a"]
				r.pass(within)
				if o, over := r.sink.outcome(item); !over {
					t.Errorf("the %s waits after %s", op, within)
				} else if slices.Contains([]process.Op{process.Stop, process.Unhost, process.Unregister}, op) &&
					o.Fault != process.None && o.Fault != process.NotRunning {
					t.Errorf("the %s has failed: %+v", op, o)
				}
			})
		})
	}
}
