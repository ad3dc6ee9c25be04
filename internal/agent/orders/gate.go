package orders

import (
	"context"
	"slices"
	"sync"
	"time"

	"drover/internal/agent/specstore"
	"drover/internal/wire"
)

// maxAsked is how many orders a report asks about at most.
const maxAsked = 500

// gate holds back orders until it is certain that the server has not given them up. One that begins by the time that
// its manifest names is certain to be wanted. This host may have been frozen meanwhile, its disk or its network may
// have hung, the agent may have been restarted, whoever carries messages may have held one, or the order has had to
// wait for another one: then the server is asked, and its word counts. Whether it is that late is told by the clock of
// the servers, of which gate knows what it shows at most. It does not begin orders, but returns those that may begin.
// It is safe for concurrent use.
type gate struct {
	// requestReport has a report made.
	requestReport func()
	// clock is the clock that nobody steps.
	clock func() time.Duration

	mu sync.Mutex
	// sent is when the report that has no answer yet was made.
	sent time.Duration
	// serverAhead is how far the clock of the servers is ahead of since at most; known is whether a server has ever
	// told.
	serverAhead time.Duration
	synced      bool
	held        []specstore.Entry
	// pending are those that were handed on in time and have not begun, by item; reminding is whether remind will be
	// called.
	pending  map[string]*pendingOrder
	timerSet bool
}

// pendingOrder is an order that waits for its turn. The server may not have heard that it was taken, and give it up.
type pendingOrder struct {
	specstore.Entry
	// validUntil is when it may begin unasked, by the clock of the servers.
	validUntil time.Time
	// answered is closed when the server has said whether it is ended.
	answered chan struct{}
	ended    bool
}

// admit returns orders that are in the journal now, or holds them.
func (g *gate) admit(orders []specstore.Entry, until time.Time) (begin []specstore.Entry) {
	if len(orders) == 0 || g.track(orders, until) {
		return orders
	}
	g.hold(orders)
	g.requestReport()
	return nil
}

// track notes until when orders may begin unasked, unless it is later than that.
func (g *gate) track(orders []specstore.Entry, until time.Time) bool {
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

// inTime reports whether it is not later than a time of the servers; the caller holds the lock.
func (g *gate) inTime(until time.Time) bool { return g.synced && g.remaining(until) >= 0 }

// remaining is how long it is until a time of the servers, at least; the caller holds the lock.
func (g *gate) remaining(until time.Time) time.Duration {
	return sinceEpoch(until) - g.clock() - g.serverAhead
}

// askAboutLate has the server asked about what has not begun in time, before its turn comes.
func (g *gate) askAboutLate() {
	g.mu.Lock()
	late, next := g.late(), time.Duration(-1)
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

// late returns the items that wait for their turn, may not begin unasked any more, and were not asked about with
// success; the caller holds the lock.
func (g *gate) late() (items []string) {
	for item, q := range g.pending {
		if !q.ended && !g.inTime(q.validUntil) {
			items = append(items, item)
		}
	}
	slices.Sort(items)
	return items
}

// mayBegin reports whether an order whose turn has come is still wanted. It waits for the server's word where that may
// not be so, until ctx ends.
func (g *gate) mayBegin(ctx context.Context, item string) (bool, error) {
	g.mu.Lock()
	q := g.pending[item]
	if q == nil || !q.ended && g.inTime(q.validUntil) {
		delete(g.pending, item)
		g.mu.Unlock()
		return true, nil
	}
	g.mu.Unlock()
	g.requestReport()
	select {
	case <-q.answered:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	g.forget(item)
	return !q.ended, nil
}

// forget drops what is known of an order that has begun, or is over.
func (g *gate) forget(item string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pending, item)
}

// resolve notes what the server has said of an order that waits for its turn; the caller holds the lock.
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

// hold has the next report ask about orders.
func (g *gate) hold(orders []specstore.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = append(g.held, orders...)
}

// readmit returns what was held and has come again in time.
func (g *gate) readmit(orders []specstore.Entry, until time.Time) (begin []specstore.Entry) {
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

// release takes out those of the items that are held.
func (g *gate) release(items []string) (released []specstore.Entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = slices.DeleteFunc(g.held, func(e specstore.Entry) bool {
		of := slices.Contains(items, e.Item)
		if of {
			released = append(released, e)
		}
		return of
	})
	return released
}

// unsure returns the orders that a report which is sent now asks the server about.
func (g *gate) unsure() (items []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent = g.clock()
	items = append(itemsOf(g.held[:min(len(g.held), maxAsked)]), g.late()...)
	return items[:min(len(items), maxAsked)]
}

// answered takes in the answer to the last report, and returns the orders that it decides on. One that is not signed
// may be anybody's: it can make the agent ask, and no more.
func (g *gate) answered(r *wire.Report, ack *wire.ReportAck, signed bool) (begin []specstore.Entry) {
	g.mu.Lock()
	// The answer was written after the report was sent, and shows whole milliseconds.
	ahead := time.Duration(ack.At+1)*time.Millisecond - g.sent
	if ack.At != 0 && (signed || g.synced && ahead > g.serverAhead) {
		g.serverAhead, g.synced = ahead, true
	}
	g.mu.Unlock()
	if !signed || ack.Error != "" || len(r.Open) == 0 {
		return nil
	}
	begin = g.release(r.Open)
	for i := range begin {
		if slices.Contains(ack.Ended, begin[i].Item) { // whoever begins it finds it expired
			begin[i].BeginBy, begin[i].Expires = 0, time.Now().Add(-time.Second)
		}
	}
	g.mu.Lock()
	for _, item := range r.Open {
		g.resolve(item, slices.Contains(ack.Ended, item))
	}
	left := len(g.held) + len(g.late())
	g.mu.Unlock()
	if left > 0 {
		g.requestReport()
	}
	return begin
}

// expire returns what may no longer begin anyway, to be ended so.
func (g *gate) expire(boot string) (expired []specstore.Entry) {
	g.mu.Lock()
	var items []string
	for i := range g.held {
		if g.held[i].Expired(boot, g.clock()) {
			items = append(items, g.held[i].Item)
		}
	}
	for _, item := range g.late() {
		if q := g.pending[item]; q.Expired(boot, g.clock()) {
			g.resolve(item, true)
		}
	}
	g.mu.Unlock()
	return g.release(items)
}
