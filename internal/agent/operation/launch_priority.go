package operation

import (
	"context"
	"sync"
	"time"
)

// maxLaunchWait is the longest time that follow-up work waits for pending launches.
const maxLaunchWait = 250 * time.Millisecond

// launchPriority lets launches go first when many processes end at once: the follow-up work of a finished command
// waits. Otherwise the bookkeeping of the first commands takes the CPUs from the launch of the last command.
type launchPriority struct {
	mu      sync.Mutex
	pending int
	// done is closed when no launch is pending any more; nil while none is pending.
	done chan struct{}
}

// enter announces a launch; leave says that the command was released or will not run.
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

// wait returns when no launch is pending, after maxLaunchWait, or when ctx ends.
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
