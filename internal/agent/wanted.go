package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"drover/internal/agent/specstore"
	"drover/internal/wire"
)

// mostAsked is how many orders a report asks about at most.
const mostAsked = 500

// wanted holds back orders until it is certain that the server has not given them up. One that begins by the time that
// its manifest names is certain to be wanted. This host may have been frozen meanwhile, its disk or its network may
// have hung, the agent may have been restarted, whoever carries messages may have held one, or the order has had to
// wait for another one: then the server is asked, and its word counts. Whether it is that late is told by the clock of
// the servers, of which wanted knows what it shows at most. It is safe for concurrent use.
type wanted struct {
	// queue takes the orders that may begin, ask has a report made.
	queue Queue
	ask   func()
	// since is the clock that nobody steps.
	since func() time.Duration

	mu sync.Mutex
	// sent is when the report that has no answer yet was made.
	sent time.Duration
	// ahead is how far the clock of the servers is ahead of since at most; known is whether a server has ever told.
	ahead time.Duration
	known bool
	held  []specstore.Entry
	// queued are those that were handed on in time and have not begun, by item; reminding is whether remind will be
	// called.
	queued    map[string]*queued
	reminding bool
}

// queued is an order that waits for its turn. The server may not have heard that it was taken, and give it up.
type queued struct {
	specstore.Entry
	// until is when it may begin unasked, by the clock of the servers.
	until time.Time
	// told is closed when the server has said whether it is ended.
	told  chan struct{}
	ended bool
}

// submit hands on orders that are in the journal now, or holds them.
func (w *wanted) submit(orders []specstore.Entry, until time.Time) {
	if len(orders) == 0 {
		return
	}
	if w.note(orders, until) {
		w.queue.Submit(orders)
		return
	}
	w.hold(orders)
	w.ask()
}

// note notes until when orders may begin unasked, unless it is later than that.
func (w *wanted) note(orders []specstore.Entry, until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.early(until) {
		return false
	}
	if w.queued == nil {
		w.queued = map[string]*queued{}
	}
	for _, e := range orders {
		w.queued[e.Item] = &queued{Entry: e, until: until, told: make(chan struct{})}
	}
	if !w.reminding {
		w.reminding = true
		time.AfterFunc(w.left(until), w.remind)
	}
	return true
}

// early reports whether it is not later than a time of the servers; the caller holds the lock.
func (w *wanted) early(until time.Time) bool { return w.known && w.left(until) >= 0 }

// left is how long it is until a time of the servers, at least; the caller holds the lock.
func (w *wanted) left(until time.Time) time.Duration { return sinceEpoch(until) - w.since() - w.ahead }

// remind has the server asked about what has not begun in time, before its turn comes.
func (w *wanted) remind() {
	w.mu.Lock()
	late, next := w.late(), time.Duration(-1)
	for _, q := range w.queued {
		if left := w.left(q.until); left >= 0 && (next < 0 || left < next) {
			next = left
		}
	}
	w.reminding = next >= 0
	if w.reminding {
		time.AfterFunc(next+time.Millisecond, w.remind)
	}
	w.mu.Unlock()
	if len(late) > 0 {
		w.ask()
	}
}

// late returns the items that wait for their turn, may not begin unasked any more, and were not asked about with
// success; the caller holds the lock.
func (w *wanted) late() (items []string) {
	for item, q := range w.queued {
		if !q.ended && !w.early(q.until) {
			items = append(items, item)
		}
	}
	slices.Sort(items)
	return items
}

// MayBegin reports whether an order whose turn has come is still wanted. It waits for the server's word where that may
// not be so, until ctx ends.
func (w *wanted) MayBegin(ctx context.Context, item string) (bool, error) {
	w.mu.Lock()
	q := w.queued[item]
	if q == nil || !q.ended && w.early(q.until) {
		delete(w.queued, item)
		w.mu.Unlock()
		return true, nil
	}
	w.mu.Unlock()
	w.ask()
	select {
	case <-q.told:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	w.forget(item)
	return !q.ended, nil
}

// forget drops what is known of an order that has begun, or is over.
func (w *wanted) forget(item string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.queued, item)
}

// tell notes what the server has said of an order that waits for its turn; the caller holds the lock.
func (w *wanted) tell(item string, ended bool) {
	q := w.queued[item]
	if q == nil || q.ended {
		return
	}
	if q.ended = ended; !ended {
		delete(w.queued, item)
	}
	close(q.told)
}

func sinceEpoch(t time.Time) time.Duration { return time.Duration(t.UnixMilli()) * time.Millisecond }

// hold has the next report ask about orders.
func (w *wanted) hold(orders []specstore.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, orders...)
}

// again hands on what was held and has come again in time.
func (w *wanted) again(orders []specstore.Entry, until time.Time) {
	if len(orders) == 0 {
		return
	}
	w.mu.Lock()
	early := w.early(until)
	w.mu.Unlock()
	if !early {
		return
	}
	if released := w.release(itemsOf(orders)); len(released) > 0 {
		w.submit(released, until)
	}
}

// release takes out those of the items that are held.
func (w *wanted) release(items []string) (released []specstore.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = slices.DeleteFunc(w.held, func(e specstore.Entry) bool {
		of := slices.Contains(items, e.Item)
		if of {
			released = append(released, e)
		}
		return of
	})
	return released
}

// complete adds to a report that is sent now what the server is asked.
func (w *wanted) complete(r *wire.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = w.since()
	r.Open = append(itemsOf(w.held[:min(len(w.held), mostAsked)]), w.late()...)
	r.Open = r.Open[:min(len(r.Open), mostAsked)]
}

// answered takes in the answer to the last report. One that is not signed may be anybody's: it can make the agent ask,
// and no more.
func (w *wanted) answered(r *wire.Report, ack *wire.ReportAck, signed bool) {
	w.mu.Lock()
	// The answer was written after the report was sent, and shows whole milliseconds.
	ahead := time.Duration(ack.At+1)*time.Millisecond - w.sent
	if ack.At != 0 && (signed || w.known && ahead > w.ahead) {
		w.ahead, w.known = ahead, true
	}
	w.mu.Unlock()
	if !signed || ack.Error != "" || len(r.Open) == 0 {
		return
	}
	orders := w.release(r.Open)
	for i := range orders {
		if slices.Contains(ack.Ended, orders[i].Item) { // whoever begins it finds it expired
			orders[i].BeginBy, orders[i].Expires = 0, time.Now().Add(-time.Second)
		}
	}
	w.queue.Submit(orders)
	w.mu.Lock()
	for _, item := range r.Open {
		w.tell(item, slices.Contains(ack.Ended, item))
	}
	left := len(w.held) + len(w.late())
	w.mu.Unlock()
	if left > 0 {
		w.ask()
	}
}

// expire hands on what may no longer begin anyway, to be ended so.
func (w *wanted) expire(boot string) {
	w.mu.Lock()
	var late []string
	for i := range w.held {
		if w.held[i].Expired(boot, w.since()) {
			late = append(late, w.held[i].Item)
		}
	}
	for _, item := range w.late() {
		if q := w.queued[item]; q.Expired(boot, w.since()) {
			w.tell(item, true)
		}
	}
	w.mu.Unlock()
	w.queue.Submit(w.release(late))
}
