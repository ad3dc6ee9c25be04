package orders

import (
	"context"
	"slices"
	"sync"
	"time"

	"drover/internal/agent/record"
	"drover/internal/wire"
)

// maxAsked is the largest number of orders that one report asks about.
const maxAsked = 500

// gate holds orders back until it is certain that the server still wants them. An order is certainly wanted until the
// time that its manifest names. An order can be later than that. The host was frozen, the disk or the network hung,
// the agent restarted, a broker held a message, or an older operation ran first. Then the gate asks the server, and
// the server's word counts. The time counts by the clock of the servers; gate knows an upper bound of that clock. gate
// does not begin orders, but returns the orders that may begin. It is safe for concurrent use.
type gate struct {
	// requestReport asks for a report soon.
	requestReport func()
	// clock is the time since boot, which nobody can step.
	clock func() time.Duration

	mu sync.Mutex
	// sent is when the last report was made, by clock.
	sent time.Duration
	// serverAhead is an upper bound on how far the servers' clock is ahead of clock. synced says that a server has
	// reported its time.
	serverAhead time.Duration
	synced      bool
	heldOrders  []record.Entry
	// pending has, by item, the orders that were queued in time and have not begun. timerSet says that a timer will
	// call askAboutLate.
	pending  map[string]*pendingOrder
	timerSet bool
	// begun and cancelled have, by item, the orders that have begun and the orders that never begin. No order is in
	// both.
	begun, cancelled map[string]bool
}

// pendingOrder is an order that waits for its turn. The server may not know that the agent accepted the order, and may
// give it up.
type pendingOrder struct {
	record.Entry
	// validUntil is until when the order may begin without a question, by the servers' clock.
	validUntil time.Time
	// doubted says that the order needs the server's word, also if it seems to be in time again: the bound of the
	// servers' clock may have become tighter since somebody began to wait for that word.
	doubted bool
	// answered is closed when the server has said whether the order is ended.
	answered chan struct{}
	ended    bool
}

// admit returns journalled orders that may begin, or holds them and asks the server.
func (g *gate) admit(orders []record.Entry, until time.Time) (begin []record.Entry) {
	if len(orders) == 0 || g.track(orders, until) {
		return orders
	}
	g.hold(orders)
	g.requestReport()
	return nil
}

// track records until when orders may begin without a question. It reports false if that time has passed.
func (g *gate) track(orders []record.Entry, until time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.inTime(until) {
		return false
	}
	if g.pending == nil {
		g.pending = map[string]*pendingOrder{}
	}
	for _, e := range orders {
		g.pending[e.Item] = &pendingOrder{Entry: e, validUntil: until, answered: make(chan struct{})}
	}
	if !g.timerSet {
		g.timerSet = true
		time.AfterFunc(g.remaining(until), g.askAboutLate)
	}
	return true
}

// inTime reports whether a time of the servers is certainly not over; the caller holds the lock.
func (g *gate) inTime(until time.Time) bool { return g.synced && g.remaining(until) >= 0 }

// remaining is the least time until a time of the servers; the caller holds the lock.
func (g *gate) remaining(until time.Time) time.Duration {
	return sinceEpoch(until) - g.clock() - g.serverAhead
}

// askAboutLate asks the server about orders that have not begun in time, before their turn comes.
func (g *gate) askAboutLate() {
	g.mu.Lock()
	late, next := g.itemsInDoubt(), time.Duration(-1)
	for _, q := range g.pending {
		if left := g.remaining(q.validUntil); left >= 0 && (next < 0 || left < next) {
			next = left
		}
	}
	g.timerSet = next >= 0
	if g.timerSet {
		time.AfterFunc(next+time.Millisecond, g.askAboutLate)
	}
	g.mu.Unlock()
	if len(late) > 0 {
		g.requestReport()
	}
}

// itemsInDoubt returns the pending items that need the server's word and do not have it; the caller holds the lock.
func (g *gate) itemsInDoubt() (items []string) {
	for item, q := range g.pending {
		q.doubted = q.doubted || !g.inTime(q.validUntil)
		if !q.ended && q.doubted {
			items = append(items, item)
		}
	}
	slices.Sort(items)
	return items
}

// mayBegin reports whether an order whose turn has come is still wanted. If that is uncertain, it asks the server and
// blocks until the answer comes or ctx ends.
func (g *gate) mayBegin(ctx context.Context, item string) (bool, error) {
	g.mu.Lock()
	q := g.pending[item]
	if g.cancelled[item] || q == nil || !q.ended && g.inTime(q.validUntil) {
		defer g.mu.Unlock()
		return g.begin(item), nil
	}
	q.doubted = true
	g.mu.Unlock()
	g.requestReport()
	select {
	case <-q.answered:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.ended {
		g.cancelled = with(g.cancelled, item)
	}
	return g.begin(item), nil
}

// begin records that an order begins, unless it is cancelled; the caller holds the lock.
func (g *gate) begin(item string) bool {
	delete(g.pending, item)
	if g.cancelled[item] {
		return false
	}
	g.begun = with(g.begun, item)
	return true
}

// adopt records that orders have begun under an earlier agent.
func (g *gate) adopt(underway []record.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begun = with(g.begun, itemsOf(underway)...)
}

// cancel decides that an order never begins. It reports false if the order has begun. Once the decision is on disk, or
// cannot be stored, the caller says so: see ended and uncancel.
func (g *gate) cancel(item string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.begun[item] {
		return false
	}
	g.cancelled = with(g.cancelled, item)
	if !g.holds(item) {
		g.resolve(item, true)
	}
	return true
}

func (g *gate) holds(item string) bool {
	return slices.ContainsFunc(g.heldOrders, func(e record.Entry) bool { return e.Item == item })
}

// ended drops cancelled orders that were held: nobody has queued them, so they end here.
func (g *gate) ended(items []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, item := range items {
		if g.holds(item) {
			delete(g.cancelled, item)
		}
	}
	g.heldOrders = slices.DeleteFunc(g.heldOrders, func(e record.Entry) bool { return slices.Contains(items, e.Item) })
}

// uncancel takes a cancellation back that could not be stored, of orders that are held.
func (g *gate) uncancel(items []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, item := range items {
		if g.holds(item) {
			delete(g.cancelled, item)
		}
	}
}

func with(set map[string]bool, items ...string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	for _, item := range items {
		set[item] = true
	}
	return set
}

// forget drops an order that has begun or is over.
func (g *gate) forget(item string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pending, item)
	delete(g.begun, item)
	delete(g.cancelled, item)
}

// busy reports whether orders wait for their turn or have begun.
func (g *gate) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pending)+len(g.begun) > 0
}

// resolve records the server's word on a pending order; the caller holds the lock.
func (g *gate) resolve(item string, ended bool) {
	q := g.pending[item]
	if q == nil || q.ended {
		return
	}
	if q.ended = ended; !ended {
		delete(g.pending, item)
	}
	close(q.answered)
}

func sinceEpoch(t time.Time) time.Duration { return time.Duration(t.UnixMilli()) * time.Millisecond }

// hold keeps orders for the next report, which asks about them.
func (g *gate) hold(orders []record.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heldOrders = append(g.heldOrders, orders...)
}

// readmit returns held orders that were sent again in time.
func (g *gate) readmit(orders []record.Entry, until time.Time) (begin []record.Entry) {
	if len(orders) == 0 {
		return nil
	}
	g.mu.Lock()
	early := g.inTime(until)
	g.mu.Unlock()
	if !early {
		return nil
	}
	return g.admit(g.release(itemsOf(orders)), until)
}

// release removes the items from the held orders, and returns them.
func (g *gate) release(items []string) (released []record.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heldOrders = slices.DeleteFunc(g.heldOrders, func(e record.Entry) bool {
		of := slices.Contains(items, e.Item)
		if of {
			released = append(released, e)
		}
		return of
	})
	return released
}

// unsure returns the orders that the present report asks the server about.
func (g *gate) unsure() (items []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent = g.clock()
	items = append(itemsOf(g.heldOrders[:min(len(g.heldOrders), maxAsked)]), g.itemsInDoubt()...)
	return items[:min(len(items), maxAsked)]
}

// answered handles the answer to the last report, and returns the orders that may go on.
func (g *gate) answered(r *wire.Report, ack *wire.ReportAck) (begin []record.Entry) {
	g.mu.Lock()
	// The server made the answer after the report was sent, and its time has whole milliseconds.
	ahead := time.Duration(ack.At+1)*time.Millisecond - g.sent
	if ack.At != 0 {
		g.serverAhead, g.synced = ahead, true
	}
	g.mu.Unlock()
	if ack.Error != "" || len(r.Open) == 0 {
		return nil
	}
	begin = g.release(r.Open)
	for i := range begin {
		if slices.Contains(ack.Ended, begin[i].Item) { // its operation ends at once, without a beginning
			g.cancel(begin[i].Item)
		}
	}
	g.mu.Lock()
	for _, item := range r.Open {
		g.resolve(item, slices.Contains(ack.Ended, item))
	}
	left := len(g.heldOrders) + len(g.itemsInDoubt())
	g.mu.Unlock()
	if left > 0 {
		g.requestReport()
	}
	return begin
}

// expire returns the held orders that have expired, so that the agent ends them.
func (g *gate) expire(boot string) (expired []record.Entry) {
	g.mu.Lock()
	var items []string
	for i := range g.heldOrders {
		if g.heldOrders[i].Expired(boot, g.clock(), time.Now()) {
			items = append(items, g.heldOrders[i].Item)
		}
	}
	for _, item := range g.itemsInDoubt() {
		if q := g.pending[item]; q.Expired(boot, g.clock(), time.Now()) {
			g.resolve(item, true)
		}
	}
	g.mu.Unlock()
	return g.release(items)
}
