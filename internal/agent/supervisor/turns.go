package supervisor

import "sync"

// turns are the goroutines of a supervisor. A runner has one only while there is something to see to: the stacks of a
// thousand goroutines that wait would be most of the agent's memory.
type turns struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

// begin runs fn beside its caller, unless the supervisor is ending.
func (t *turns) begin(fn func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.running.Go(fn)
	}
}

// beside is begin for a caller that is one of these goroutines itself, whose end is waited for.
func (t *turns) beside(fn func()) { t.running.Go(fn) }

// end lets nothing more begin, and waits for what runs.
func (t *turns) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.running.Wait()
}
