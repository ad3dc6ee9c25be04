package supervisor

import "sync"

// goroutines are the goroutines of a supervisor. A runner has one only while it has work: the stacks of a thousand
// waiting goroutines would be most of the agent's memory.
type goroutines struct {
	mu      sync.Mutex
	ending  bool
	running sync.WaitGroup
}

// start runs fn in a new goroutine, unless the supervisor is ending.
func (g *goroutines) start(fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ending {
		g.running.Go(fn)
	}
}

// spawn is start for a caller that is itself one of these goroutines, so that wait cannot have returned yet.
func (g *goroutines) spawn(fn func()) { g.running.Go(fn) }

// wait blocks further starts, and waits for the goroutines that run.
func (g *goroutines) wait() {
	g.mu.Lock()
	g.ending = true
	g.mu.Unlock()
	g.running.Wait()
}
