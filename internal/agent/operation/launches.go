package operation

import (
	"context"
	"sync"
	"time"

	"drover/internal/process"
)

// activeRuns has the runs of everything that is under way, by the key of its progress. Until the result is recorded,
// no other part knows whether a run left the process running. So the output and the cgroup of such a run must stay.
// The zero value is empty.
type activeRuns struct {
	mu   sync.Mutex
	runs map[string][]string
}

func (a *activeRuns) add(key string, runs ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs == nil {
		a.runs = map[string][]string{}
	}
	a.runs[key] = append(a.runs[key], runs...)
}

func (a *activeRuns) drop(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.runs, key)
}

// Runs returns the runs of the operations, the relaunches and the ends by policy that are under way: a run is among
// them from before anything of it can be seen until Ended or Relaunched, or until TakeDown returns.
func (o *Operator) Runs() []string {
	o.active.mu.Lock()
	defer o.active.mu.Unlock()
	var all []string
	for _, runs := range o.active.runs {
		all = append(all, runs...)
	}
	return all
}

// Adopt keeps the runs of an operation that an earlier agent has left open. A long time may pass before that operation
// continues.
func (o *Operator) Adopt(item string) { o.adopt(item) }

// AdoptPolicy is Adopt for a relaunch or an end by policy of an earlier agent.
func (o *Operator) AdoptPolicy(id process.ID) {
	o.adopt(relaunchKey(id))
	o.adopt(takeDownKey(id))
}

func (o *Operator) adopt(key string) {
	progress, err := o.Journal.GetProgress(key)
	if err != nil {
		o.Log.Warn("cannot read progress", "key", key, "error", err)
	}
	for _, st := range progress.Steps {
		o.active.add(key, st.Run)
	}
}

// Ended forgets the runs of an operation. Call it when the result of the operation is recorded.
func (o *Operator) Ended(item string) { o.active.drop(item) }

// maxLaunchWait is the longest time that follow-up work waits for pending launches.
const maxLaunchWait = 250 * time.Millisecond

// launchPriority lets launches go first when many processes end at once: the follow-up work of a finished command, and
// of a relaunched foreground process, waits. Otherwise the bookkeeping of the first commands takes the CPUs from the
// launch of the last command.
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

// settling is the time in which a released command executes its program. The follow-up work of a relaunch would take
// the CPUs from it.
const settling = 3 * time.Millisecond

// leaveSoon is leave after the settling.
func (p *launchPriority) leaveSoon() { time.AfterFunc(settling, p.leave) }

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
