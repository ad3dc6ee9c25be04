package supervisor_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"drover/internal/agent/record"
	"drover/internal/process"
)

// TestRest: processes that run as they should have no goroutine, and nothing is told of them but that they are still
// there, now and then.
func TestRest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		before := runtime.NumGoroutine()
		const n = 50
		for i := range n {
			name := fmt.Sprintf("p%d", i)
			r.do(process.Start, name, r.spec(name))
		}
		stopped := r.spec("stopped")
		r.do(process.Start, "stopped", stopped)
		r.do(process.Stop, "stopped", stopped)
		r.pass(10 * time.Minute) // each has been found healthy
		if now := runtime.NumGoroutine(); now >= before+n {
			t.Errorf("NEVER A FLAKE: %d goroutines are there for %d processes at rest", now-before, n)
		}
		told := func(d time.Duration) int {
			was := r.sink.changes()
			r.pass(d)
			return r.sink.changes() - was
		}
		for total, at := 0, 0; at < 10; at++ {
			changed := told(30 * time.Second)
			if total += changed; changed != 0 && changed != n+1 || at == 9 && total != n+1 {
				t.Errorf("%d changes are told by look %d, %d in all; want each of %d once", changed, at+1, total, n+1)
			}
		}
	})
}

// TestRestKeepsNoOperation: a process at rest does not hold the spec that its last operation brought along.
func TestRestKeepsNoOperation(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.do(process.Register, "web", r.spec("web"))
		last := func() weak.Pointer[process.Spec] {
			e := r.accept(process.Start, "web", r.spec("web"))
			e.Spec = new(*e.Spec) // the disk of the rig keeps the other one
			r.Submit([]record.Entry{e})
			return weak.Make(e.Spec)
		}()
		r.pass(time.Minute)
		r.state("web", "running", true)
		runtime.GC()
		if last.Value() != nil {
			t.Error("the spec of the start is still in memory")
		}
	})
}
