package supervisor

import "sync"

// goroutines are the goroutines of a supervisor. A runner has one only while there is something to see to: the stacks
// of a thousand goroutines that wait would be most of the agent's memory.
type goroutines struct {
	mu      sync.Mutex
	ending  bool
	running sync.WaitGroup
}

// start runs fn beside its caller, unless the supervisor is ending.
func (g *goroutines) start(fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ending {
		g.running.Go(fn)
	}
}

// spawn is begin for a caller that is one of these goroutines itself, whose end is waited for.
func (g *goroutines) spawn(fn func()) { g.running.Go(fn) }

// wait lets nothing more begin, and waits for what runs.
func (g *goroutines) wait() {
	g.mu.Lock()
	g.ending = true
	g.mu.Unlock()
	g.running.Wait()
}
