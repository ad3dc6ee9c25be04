package agent

import (
	"slices"
	"sync"
	"time"

	"drover/internal/agent/specstore"
	"drover/internal/wire"
)

// mostAsked is how many orders a report asks about at most.
const mostAsked = 500

// wanted holds back orders until it is certain that the server has not given them up. One that is handed on by the time that its manifest
// names is certain to be wanted. This host may have been frozen meanwhile, its disk or its network may have hung, or the agent may have been
// restarted: then the server is asked, and its word counts. Whether it is that late is told by the clock of the servers, of which wanted knows
// what it shows at most. It is safe for concurrent use.
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
}

// submit hands on orders that are in the journal now, or holds them.
func (w *wanted) submit(orders []specstore.Entry, until time.Time) {
	if len(orders) == 0 {
		return
	}
	if w.early(until) {
		w.queue.Submit(orders)
		return
	}
	w.hold(orders)
	w.ask()
}

// early reports whether it is not later than a time of the servers.
func (w *wanted) early(until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known && w.since()+w.ahead <= sinceEpoch(until)
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
	if len(orders) == 0 || !w.early(until) {
		return
	}
	w.queue.Submit(w.release(itemsOf(orders)))
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
	r.Open = itemsOf(w.held[:min(len(w.held), mostAsked)])
}

// answered takes in the answer to the last report. One that is not signed may be anybody's: it can make the agent ask, and no more.
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
	left := len(w.held)
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
	w.mu.Unlock()
	w.queue.Submit(w.release(late))
}
