package sqlstore

import (
	"time"

	"drover/internal/process"
	"drover/internal/server/store"
)

// Watch receives notices of what was stored, for metrics. Its methods return at once, and any goroutine may call them.
type Watch interface {
	// Wrote tells that a transaction of some writes is on disk, or has failed, after the given time.
	Wrote(writes int, took time.Duration, err error)
	// Ended tells that an item got its outcome, and the time since the creation of its task.
	Ended(op process.Op, fault process.Fault, took time.Duration)
	// Happened tells that a new event was stored, and the time since the event by the clock of its host.
	Happened(kind process.EventKind, delay time.Duration)
	// Audited tells that rows were added to the audit log.
	Audited(rows int)
}

// noWatch is a Watch that nobody looks at.
type noWatch struct{}

func (noWatch) Wrote(int, time.Duration, error)                {}
func (noWatch) Ended(process.Op, process.Fault, time.Duration) {}
func (noWatch) Happened(process.EventKind, time.Duration)      {}
func (noWatch) Audited(int)                                    {}

// finishedItem is an item that has got its outcome.
type finishedItem struct {
	op      process.Op
	fault   process.Fault
	created int64 // of its task, in Unix nanoseconds
}

// tell tells of items that have got their outcomes.
func (db *Store) tell(items []finishedItem) {
	now := time.Now()
	for _, it := range items {
		db.watch.Ended(it.op, it.fault, max(now.Sub(moment(it.created)), 0))
	}
}

// knownFrom returns the items of a task whose outcomes were known when it was stored.
func knownFrom(t *store.Task, l layout) []finishedItem {
	var list []finishedItem
	for _, it := range l.items {
		if o := it.target.Outcome; o != nil {
			list = append(list, finishedItem{op: t.Requests[it.request].Op, fault: o.Fault, created: nanos(t.Created)})
		}
	}
	return list
}
