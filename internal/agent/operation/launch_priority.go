package operation

import (
	"context"
	"sync"
	"time"
)

// maxLaunchWait is the longest that what follows a command waits for commands that are still on their way.
const maxLaunchWait = 250 * time.Millisecond

// launchPriority is what happens when many processes end at once: the commands that are still to be started go first,
// and what follows a command waits. Without it the bookkeeping of the first ones takes the processors away from the
// start of the last one.
type launchPriority struct {
	mu      sync.Mutex
	pending int
	// done is closed when no command is ahead any more; nil while none is.
	done chan struct{}
}

// enter announces a command; leave says that it has been let run or will not be.
func (p *launchPriority) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending++; p.pending == 1 {
		p.done = make(chan struct{})
	}
}

func (p *launchPriority) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending--; p.pending == 0 {
		close(p.done)
		p.done = nil
	}
}

// wait returns once no command is ahead, or it has waited long enough, or ctx ends.
func (p *launchPriority) wait(ctx context.Context) {
	p.mu.Lock()
	over := p.done
	p.mu.Unlock()
	if over == nil {
		return
	}
	limit := time.NewTimer(maxLaunchWait)
	defer limit.Stop()
	select {
	case <-over:
	case <-limit.C:
	case <-ctx.Done():
	}
}
