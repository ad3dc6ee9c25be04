package operation

import (
	"context"
	"sync"
	"time"
)

// giveWay is the longest that what follows a command waits for commands that are still on their way.
const giveWay = 250 * time.Millisecond

// rush is what happens when many processes end at once: the commands that are still to be started go first, and what
// follows a command waits. Without it the bookkeeping of the first ones takes the processors away from the start of the
// last one.
type rush struct {
	mu    sync.Mutex
	ahead int
	// over is closed when no command is ahead any more; nil while none is.
	over chan struct{}
}

// enter announces a command; leave says that it has been let run or will not be.
func (r *rush) enter() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ahead++; r.ahead == 1 {
		r.over = make(chan struct{})
	}
}

func (r *rush) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ahead--; r.ahead == 0 {
		close(r.over)
		r.over = nil
	}
}

// wait returns once no command is ahead, or it has waited long enough, or ctx ends.
func (r *rush) wait(ctx context.Context) {
	r.mu.Lock()
	over := r.over
	r.mu.Unlock()
	if over == nil {
		return
	}
	limit := time.NewTimer(giveWay)
	defer limit.Stop()
	select {
	case <-over:
	case <-limit.C:
	case <-ctx.Done():
	}
}
