package supervisor

import (
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/story"
)

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
	total.States[story.Flapping], total.States[story.Unhealthy] = 0, 0
	for _, r := range s.all() {
		total.Waiting += r.waiting()
		f := r.shared.load()
		if f.Record == nil {
			continue
		}
		total.States[f.Shown(r.now())]++
		if f.Record.Hosted {
			total.Hosted++
		}
		if f.IsFlapping(r.now()) {
			total.Flapping++
		}
		if f.IsUnhealthy() {
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
