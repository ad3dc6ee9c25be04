package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/task"
)

const (
	// leaseBatch is how many items are leased at once, and about how many wait at most for the dispatcher to hand them
	// over.
	leaseBatch = 1000
	// passAgain is how soon what may pass older items is looked at again: their receipts are on the way.
	passAgain = 50 * time.Millisecond
	// abreast is how many manifests are on their way to an agent at a time: while it answers one, the next one is
	// sealed.
	abreast = 2
	// leaseSlack is how much longer than a send and a ping a lease lasts. Should the engine die, the next one has to
	// wait for it.
	leaseSlack = 2 * time.Second
)

// dispatcher sends what is due.
type dispatcher struct {
	store  Store
	clock  clock
	sender *sender
	log    *slog.Logger
	lease  time.Duration

	wake     signal
	outbox   *outbox
	receipts *receipts
	// slots bounds how many agents are served at the same time.
	slots chan struct{}

	mu     sync.Mutex
	back   map[string]bool // agents that have introduced themselves and were not reminded yet
	queued []store.Item    // leased, and not handed over yet
}

func newDispatcher(c Config, clock clock, receipts *receipts, told *outcomes) *dispatcher {
	d := &dispatcher{
		store:    c.Store,
		clock:    clock,
		log:      c.Log,
		lease:    c.SendTimeout + 2*pingTime + leaseSlack,
		wake:     newSignal(),
		outbox:   newOutbox(),
		receipts: receipts,
		slots:    make(chan struct{}, c.Parallel),
		back:     map[string]bool{},
	}
	d.sender = &sender{
		store: c.Store, clock: clock, directory: c.Directory, link: c.Link, key: c.Key, log: c.Log,
		timeout:   c.SendTimeout,
		elsewhere: c.Shared.Elsewhere, accepted: receipts.add, outcomes: told, finished: told.finished,
		changed: d.wake.raise,
	}
	return d
}

// run sends until the context ends, and waits for what is on the way.
func (d *dispatcher) run(ctx context.Context) {
	var sends sync.WaitGroup
	defer sends.Wait()
	for ctx.Err() == nil {
		next, err := d.round(ctx, &sends)
		if err != nil && ctx.Err() == nil {
			d.log.ErrorContext(ctx, "cannot read due items", "error", err)
			next = d.clock.now().Add(storeRetry)
		}
		d.clock.wait(ctx, d.wake, next)
	}
}

// round hands over all that is due now, and returns when more will be; zero says that nothing is left.
func (d *dispatcher) round(ctx context.Context, sends *sync.WaitGroup) (time.Time, error) {
	d.distribute(ctx, sends, d.takeQueued())
	if err := d.remind(ctx, sends); err != nil {
		return time.Time{}, err
	}
	for {
		waits, err := d.store.Pass(ctx)
		if err != nil {
			return time.Time{}, err
		}
		next, ok, err := d.store.NextDue(ctx)
		now := d.clock.now()
		if again := now.Add(passAgain); waits && (!ok || next.After(again)) {
			next, ok = again, true
		}
		if err != nil || !ok || next.After(now) {
			return next, err
		}
		items, err := d.store.LeaseItems(ctx, now, now.Add(d.lease), leaseBatch)
		if err != nil {
			return time.Time{}, err
		}
		d.distribute(ctx, sends, items)
		if ctx.Err() != nil {
			return time.Time{}, ctx.Err()
		}
	}
}

// freeSlots is how many items may be given.
func (d *dispatcher) freeSlots() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(leaseBatch-len(d.queued), 0)
}

// enqueue has items sent that have been leased, and whatever else is due.
func (d *dispatcher) enqueue(items []store.Item) {
	d.mu.Lock()
	d.queued = append(d.queued, items...)
	d.mu.Unlock()
	d.wake.raise()
}

// takeQueued takes the items that were given.
func (d *dispatcher) takeQueued() []store.Item {
	d.mu.Lock()
	defer d.mu.Unlock()
	items := d.queued
	d.queued = nil
	return items
}

// distribute gives items to those that serve their agents, and lets new ones begin.
func (d *dispatcher) distribute(ctx context.Context, sends *sync.WaitGroup, items []store.Item) {
	byAgent := map[string][]store.Item{}
	var agents []string // in the order of arrival
	for _, it := range items {
		if byAgent[it.Agent] == nil {
			agents = append(agents, it.Agent)
		}
		byAgent[it.Agent] = append(byAgent[it.Agent], it)
	}
	for _, agent := range agents {
		if !d.outbox.put(agent, byAgent[agent]) {
			continue
		}
		// Also when the context has ended: whoever put the first items must serve, and finds at once that it may not
		// send.
		d.slots <- struct{}{}
		sends.Go(func() {
			defer func() { <-d.slots }()
			d.serve(ctx, agent)
		})
	}
}

// serve sends to one agent until nothing waits for it. While the agent answers one manifest, what came of the one
// before is stored.
func (d *dispatcher) serve(ctx context.Context, agent string) {
	for items, ok := d.outbox.take(agent); ok; items, ok = d.outbox.take(agent) {
		var sends sync.WaitGroup
		places := make(chan struct{}, abreast)
		for _, batch := range pack(items) {
			places <- struct{}{}
			sends.Go(func() {
				store := d.sender.send(ctx, agent, batch)
				<-places
				if store != nil {
					store()
				}
			})
		}
		sends.Wait() // until then they are known to be on their way
	}
}

// returned notes that an agent has come back.
func (d *dispatcher) returned(agent string) {
	d.mu.Lock()
	d.back[agent] = true
	d.mu.Unlock()
	d.wake.raise()
}

// remind sends returning agents once more what they have accepted and not begun: one that knows it says so, and one
// that lost its journal gets a second chance. What has begun is never sent again.
func (d *dispatcher) remind(ctx context.Context, sends *sync.WaitGroup) error {
	d.mu.Lock()
	back := slices.Collect(maps.Keys(d.back))
	d.mu.Unlock()
	if len(back) > 0 {
		d.receipts.write(ctx) // what they have accepted is read next
	}
	for _, agent := range back {
		items, err := d.store.Unfinished(ctx, agent)
		if err != nil {
			return err
		}
		d.mu.Lock()
		delete(d.back, agent)
		d.mu.Unlock()
		accepted := items[:0]
		for _, it := range items {
			if it.State == task.Accepted {
				accepted = append(accepted, it)
			}
		}
		if len(accepted) > 0 {
			d.distribute(ctx, sends, accepted)
		}
	}
	return nil
}
