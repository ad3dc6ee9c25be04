package supervisor

import "drover/internal/agent/lifecycle"

// Counts are counts over all processes.
type Counts struct {
	// States counts the processes by the state that their status shows; Hosted, Flapping and Unhealthy count those that
	// are so.
	States                      map[string]int
	Hosted, Flapping, Unhealthy int
	// Waiting counts operations that wait for others on the same process.
	Waiting int
}

// Counts counts what is known, without a look at the processes themselves.
func (s *Supervisor) Counts() Counts {
	total := Counts{States: map[string]int{}}
	for _, state := range lifecycle.States() {
		total.States[string(state)] = 0
	}
	total.States[shownFlapping], total.States[shownUnhealthy] = 0, 0
	for _, r := range s.all() {
		total.Waiting += r.waiting()
		f := r.shared.load()
		if f.record == nil {
			continue
		}
		flapping := f.flapping(s.cfg.Bounds, r.now())
		total.States[f.state(flapping)]++
		if f.record.Hosted {
			total.Hosted++
		}
		if flapping {
			total.Flapping++
		}
		if f.machine.State == lifecycle.Running && f.runtime.Health != nil && f.runtime.Health.Bad {
			total.Unhealthy++
		}
	}
	return total
}

// waiting counts the operations that have not begun.
func (b *mailbox) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for i := range b.tasks {
		if b.tasks[i].hold == nil {
			n++
		}
	}
	return n
}
