package supervisor_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// TestI4_TenThousandCrashes: a process that crashes again and again costs no more memory, goroutines or rows on disk
// than one that crashed once, and is told of in proportion.
func TestI4_TenThousandCrashes(t *testing.T) {
	const crashes = 10000
	bubble(t, func(t *testing.T, r *rig) {
		s := r.spec("a")
		s.Compat.StartRetries, s.Compat.StartInterval = 10*crashes, 1
		launched := 0
		r.Script(line("start", "a"), operationtest.Script{
			Takes: time.Second, Begin: func(string) { launched++ },
			End: func(run string) { r.Spawn("a", file("a"), run) },
		})
		r.do(process.Start, "a", s)
		crash := func() {
			r.Kill(file("a"))
			for i := 0; ; i++ {
				r.pass(time.Second)
				if _, alive := r.Alive(file("a")); alive {
					return
				}
				if i == 20 {
					t.Fatalf("not back after %d launches", launched)
				}
			}
		}
		for range 100 {
			crash()
		}
		told := r.sink.changes()
		goroutines := runtime.NumGoroutine() // of the whole test binary: other tests' leftovers come and go
		for range crashes {
			crash()
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > goroutines+100 {
			t.Errorf("NEVER A FLAKE: %d goroutines, there were %d", n, goroutines)
		}
		if launched < crashes {
			t.Errorf("launched %d times", launched)
		}
		if n := r.sink.changes() - told; n > 20*crashes {
			t.Errorf("told %d times of %d crashes", n, crashes)
		}
		if len(r.disk.records) != 1 || len(r.disk.runtimes) != 1 || len(r.disk.entries) != 1 {
			t.Errorf("on disk: %d records, %d states, %d operations, want one each", len(r.disk.records),
				len(r.disk.runtimes), len(r.disk.entries))
		}
		if size := len(r.disk.runtimes[id("a")]); size > 2000 {
			t.Errorf("the state takes %d bytes", size)
		}
		r.state("a", "flapping", true)
	})
}

func (s *sink) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
