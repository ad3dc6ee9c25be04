package engine

import (
	"context"
	"sync"

	"drover/internal/server/store"
)

// outcomeBatch is how many outcomes are at most stored at once, unless a single agent tells more.
const outcomeBatch = 1000

// outcomes stores what agents say has come of items. What comes while others are being stored is stored together: one
// statement for many agents costs little more than one for a single one.
type outcomes struct {
	store Store
	// finished is called with the tasks of the items that have got their outcome now.
	finished func(tasks []string)
	// turn holds something while one stores.
	turn chan struct{}

	mu   sync.Mutex
	next *outcomeGroup // nil for none
}

// outcomeGroup is what is stored together.
type outcomeGroup struct {
	given  []store.ReportedOutcome
	givers int
	stored chan struct{} // closed when err is set
	err    error
}

func newOutcomes(s Store, finished func(tasks []string)) *outcomes {
	return &outcomes{store: s, finished: finished, turn: make(chan struct{}, 1)}
}

// put returns when the outcomes are on disk, or could not be stored. What others have told does not make those of a
// giver fail.
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

// join adds outcomes to those that are stored next; who comes first has to store them.
func (o *outcomes) join(given []store.ReportedOutcome) (g *outcomeGroup, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil || len(o.next.given)+len(given) > outcomeBatch {
		// One that is full has left, and is stored by the one who came first there.
		o.next, first = &outcomeGroup{stored: make(chan struct{})}, true
	}
	o.next.given = append(o.next.given, given...)
	o.next.givers++
	return o.next, first
}

// leave has nobody join a group any more.
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
