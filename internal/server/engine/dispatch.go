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
	// leaseBatch is how many items one lease takes, and about how many items wait at most for the dispatcher to
	// distribute them.
	leaseBatch = 1000
	// passAgain is the interval between checks of items that may pass older items, because the receipts of the older
	// items are on the way.
	passAgain = 50 * time.Millisecond
	// abreast is how many manifests may be on the way to one agent: while the agent answers one, the sender seals the
	// next.
	abreast = 2
	// waitingLook is the interval between looks for items that wait for older ones while their agent is away, and
	// waitedLong how old these items must be.
	waitingLook = 5 * time.Second
	waitedLong  = 4 * time.Second
	// leaseSlack is how much longer a lease lasts than a send and a ping. If the engine dies, the next engine has to
	// wait for the end of the lease.
	leaseSlack = 2 * time.Second
)

// dispatcher sends due items.
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
	// looked is when run has last looked for items that wait.
	looked time.Time

	mu     sync.Mutex
	back   map[string]bool // agents that have introduced themselves and got no reminder yet
	queued []store.Item    // leased and not distributed yet
}

func newDispatcher(c Config, clock clock, receipts *receipts, told *outcomes, begun func()) *dispatcher {
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
		store: c.Store, clock: clock, directory: c.Directory, link: c.Link, log: c.Log,
		timeout:   c.SendTimeout,
		elsewhere: c.Shared.Elsewhere, accepted: receipts.add, begun: begun, outcomes: told, finished: told.finished,
		changed: d.wake.raise,
	}
	return d
}

// run sends until the context ends, and waits for the open sends.
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

// round distributes all due items, and returns the time of the next due item; zero if there is none.
func (d *dispatcher) round(ctx context.Context, sends *sync.WaitGroup) (time.Time, error) {
	d.distribute(ctx, sends, d.takeQueued())
	if err := d.remind(ctx, sends); err != nil {
		return time.Time{}, err
	}
	again, err := d.cancel(ctx, sends)
	if err != nil {
		return time.Time{}, err
	}
	look, err := d.giveUpWaiting(ctx, sends)
	if err != nil {
		return time.Time{}, err
	}
	next, err := d.sendDue(ctx, sends)
	for _, at := range []time.Time{again, look} {
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next, err
}

// giveUpWaiting ends the items of agents that are away which wait for an older item: nobody knows when that one ends,
// and a caller must not wait for it. It returns the time of the next look; zero if no item waits.
func (d *dispatcher) giveUpWaiting(ctx context.Context, sends *sync.WaitGroup) (next time.Time, err error) {
	now := d.clock.now()
	if next := d.looked.Add(waitingLook); now.Before(next) {
		return next, nil
	}
	agents, err := d.store.WaitingAgents(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if d.looked = now; len(agents) == 0 {
		return time.Time{}, nil
	}
	created := now.Add(-waitedLong)
	for _, agent := range agents {
		p := d.sender.directory.Presence(agent, now)
		if !p.Away || !p.GivenUp(created, now) || d.sender.elsewhere(agent) {
			continue
		}
		d.slots <- struct{}{}
		sends.Go(func() {
			defer func() { <-d.slots }()
			d.sender.giveUpWaiting(ctx, agent, created)
		})
	}
	return now.Add(waitingLook), nil
}

// sendDue distributes due items, and returns the time of the next due item; zero if there is none.
func (d *dispatcher) sendDue(ctx context.Context, sends *sync.WaitGroup) (time.Time, error) {
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

// freeSlots returns how many more items may be queued.
func (d *dispatcher) freeSlots() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(leaseBatch-len(d.queued), 0)
}

// enqueue queues leased items and wakes the dispatcher.
func (d *dispatcher) enqueue(items []store.Item) {
	d.mu.Lock()
	d.queued = append(d.queued, items...)
	d.mu.Unlock()
	d.wake.raise()
}

// takeQueued removes and returns the queued items.
func (d *dispatcher) takeQueued() []store.Item {
	d.mu.Lock()
	defer d.mu.Unlock()
	items := d.queued
	d.queued = nil
	return items
}

// distribute adds items to the queues of their agents, and starts a sender for each agent without one.
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
		// This runs even if the context has ended: the goroutine that queued the first items must serve the agent, and
		// then finds that it may not send.
		d.slots <- struct{}{}
		sends.Go(func() {
			defer func() { <-d.slots }()
			d.serve(ctx, agent)
		})
	}
}

// serve sends to one agent until nothing waits for it. While the agent answers one manifest, serve stores the result
// of the previous one.
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
		sends.Wait() // until then the outbox must know that they are on the way
	}
}

// returned records that an agent has reconnected.
func (d *dispatcher) returned(agent string) {
	d.mu.Lock()
	d.back[agent] = true
	d.mu.Unlock()
	d.wake.raise()
}

// remind resends to reconnected agents the items that they have accepted and not begun. An agent that still has an
// item confirms it, and an agent that lost its journal gets the item again. remind never resends an item that has
// begun.
func (d *dispatcher) remind(ctx context.Context, sends *sync.WaitGroup) error {
	d.mu.Lock()
	back := slices.Collect(maps.Keys(d.back))
	d.mu.Unlock()
	if len(back) > 0 {
		d.receipts.write(ctx) // remind reads the accepted items next
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

// Cancel ends the items of a task that have not begun, and returns what happened to the items. An item that an agent
// may have ends when the agent has answered that it never begins; Cancel does not wait for that.
func (e *Engine) Cancel(ctx context.Context, id, app string) (store.CancelCounts, error) {
	c, err := e.store.CancelTask(ctx, id, app, e.clock.now())
	if err != nil {
		return c, err
	}
	if c.Ended > 0 {
		e.finished([]string{id})
	}
	e.dispatch.wake.raise()
	return c, nil
}

// cancel tells agents which orders must not begin, and returns when the next agents must be told; zero if there are
// none.
func (d *dispatcher) cancel(ctx context.Context, sends *sync.WaitGroup) (next time.Time, err error) {
	for {
		now := d.clock.now()
		items, next, err := d.store.LeaseCancels(ctx, now, now.Add(d.lease), leaseBatch)
		if err != nil || len(items) == 0 || ctx.Err() != nil {
			return next, err
		}
		byAgent := map[string][]store.Item{}
		for i := range items {
			byAgent[items[i].Agent] = append(byAgent[items[i].Agent], items[i])
		}
		for agent, items := range byAgent {
			d.slots <- struct{}{}
			sends.Go(func() {
				defer func() { <-d.slots }()
				for batch := range slices.Chunk(items, maxOrders) {
					d.sender.cancel(ctx, agent, batch)
				}
			})
		}
	}
}
