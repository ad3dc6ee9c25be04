package engine

import (
	"context"
	"sync"

	"drover/internal/server/store"
)

// outcomeBatch is how many outcomes are stored at once, unless a single agent reports more.
const outcomeBatch = 1000

// outcomes stores the outcomes that agents report. It batches outcomes that arrive during a write: one statement for
// many agents costs little more than one for a single agent.
type outcomes struct {
	store Store
	// finished is called with the tasks of the items that have just got their outcome.
	finished func(tasks []string)
	// turn holds a token while a write runs.
	turn chan struct{}

	mu   sync.Mutex
	next *outcomeGroup // nil for none
}

// outcomeGroup is a batch of outcomes.
type outcomeGroup struct {
	given  []store.ReportedOutcome
	givers int
	stored chan struct{} // closed when err is set
	err    error
}

func newOutcomes(s Store, finished func(tasks []string)) *outcomes {
	return &outcomes{store: s, finished: finished, turn: make(chan struct{}, 1)}
}

// put returns when the outcomes are on disk, or could not be stored. An error from the outcomes of other agents does
// not affect the caller.
func (o *outcomes) put(ctx context.Context, given []store.ReportedOutcome) error {
	g, first := o.join(given)
	if first {
		o.turn <- struct{}{}
		o.leave(g)
		g.err = o.write(ctx, g.given)
		<-o.turn
		close(g.stored)
	}
	<-g.stored
	if g.err == nil || g.givers == 1 {
		return g.err
	}
	return o.write(ctx, given)
}

// join adds outcomes to the next group. The caller that joins first has to store the group.
func (o *outcomes) join(given []store.ReportedOutcome) (g *outcomeGroup, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil || len(o.next.given)+len(given) > outcomeBatch {
		// A full group takes no more; its first caller stores it.
		o.next, first = &outcomeGroup{stored: make(chan struct{})}, true
	}
	o.next.given = append(o.next.given, given...)
	o.next.givers++
	return o.next, first
}

// leave closes a group to further callers.
func (o *outcomes) leave(g *outcomeGroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == g {
		o.next = nil
	}
}

func (o *outcomes) write(ctx context.Context, given []store.ReportedOutcome) error {
	tasks, err := o.store.Finish(context.WithoutCancel(ctx), given)
	if err == nil {
		o.finished(tasks)
	}
	return err
}
