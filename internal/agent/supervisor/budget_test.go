package supervisor_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// TestBudget: of very many processes that crash at once no more are started than the host bears, all come back, nobody
// waits longer than those who crashed before him, and who is started by an operation does not wait at all.
func TestBudget(t *testing.T) {
	const many, burst, rate, late = 2000, 100, 10, 5 // rate is that of the rig
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		r.burst = burst
		r.begin()
		var (
			mu      sync.Mutex
			epoch   time.Time
			started = map[string]time.Duration{}
		)
		name := func(i int) string { return fmt.Sprintf("p%04d", i) }
		for i := range many + 1 {
			n := name(i)
			s := r.spec(n)
			r.Script(line("start", n), operationtest.Script{Begin: func(run string) {
				mu.Lock()
				defer mu.Unlock()
				started[n] = time.Since(epoch)
				r.Spawn(n, file(n), run)
			}})
			r.submit(process.Start, n, s)
		}
		r.pass(time.Minute)
		r.pass(burst / rate * time.Second) // the budget is full
		epoch = time.Now()
		clear(started)
		// The last ones crash when the others have begun to wait.
		for i := range many - late {
			r.Kill(file(name(i)))
		}
		r.pass(time.Second)
		for i := many - late; i < many; i++ {
			r.Kill(file(name(i)))
		}
		r.pass(0)
		if s := r.state(name(many-1), "backoff", true); s.Cause.ID != process.CauseHeldBack {
			t.Errorf("who waits for the budget is shown with %+v", s.Cause)
		}
		r.do(process.Restart, name(many), r.spec(name(many)))
		r.do(process.Unhost, name(many-1), nil)
		r.pass(many / rate * time.Second)
		within := map[int]int{}
		for n, at := range started {
			if n != name(many) {
				within[int(at/time.Second)]++
			}
		}
		if within[0] < burst || within[0] > burst+rate {
			t.Errorf("%d were started in the first second, want %d", within[0], burst)
		}
		for second := 1; second < (many-burst)/rate-1; second++ {
			if n := within[second]; n < rate-2 || n > rate+2 {
				t.Errorf("%d were started in second %d, want %d", n, second, rate)
			}
		}
		for i := range many - 1 {
			if _, back := started[name(i)]; !back {
				t.Fatalf("%s is not back", name(i))
			}
			r.state(name(i), "running", true)
		}
		for i := many - late; i < many-1; i++ {
			for j := range many - late {
				if started[name(i)] < started[name(j)] {
					t.Fatalf("%s crashed later than %s and was started before", name(i), name(j))
				}
			}
		}
		if at, again := started[name(many-1)]; again {
			t.Errorf("who was unhosted while he waited was started at %v", at)
		}
	})
}

// TestBudgetOfOneWhoCrashesAllTheTime: he takes no more than his turn.
func TestBudgetOfOneWhoCrashesAllTheTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.stop()
		r.burst = 1
		r.begin()
		s := r.spec("a")
		s.Compat.StartRetries, s.Compat.StartInterval = 1000, 1
		r.do(process.Start, "a", s)
		at := r.starts("a", crashing(r, "a", 10*time.Millisecond))
		for _, n := range []string{"b", "c"} {
			r.do(process.Start, n, r.spec(n))
		}
		r.Kill(file("a"))
		r.pass(10 * time.Second)
		if len(*at) < 5 {
			t.Fatalf("launched at %v", *at)
		}
		r.Kill(file("b"))
		r.Kill(file("c"))
		r.pass(3 * time.Second)
		r.state("b", "running", true)
		r.state("c", "running", true)
		if n := len(*at); n < 6 {
			t.Errorf("launched %d times: others kept it from its turn", n)
		}
	})
}
