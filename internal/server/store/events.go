package store

import (
	"context"
	"time"

	"drover/internal/process"
)

// StoredEvent is an event as the server keeps it.
type StoredEvent struct {
	// Cursor rises with every event that is stored, and no later one has a smaller one: a reader that remembers it
	// misses nothing and reads nothing twice.
	Cursor int64
	Agent  string // public nkey
	// Received is when it was stored.
	Received time.Time
	Event    process.Event
}

// Mark returns the event's place among those of all hosts, by the time at which they happened.
func (e *StoredEvent) Mark() EventMark { return EventMark{e.Event.At, e.Cursor} }

// EventMark is a place in the order of time. The zero mark comes after all.
type EventMark struct {
	At     int64 // Unix milliseconds
	Cursor int64
}

// EventFilter says which events are wanted; a zero field matches all.
type EventFilter struct {
	// Agents are keys; nil matches all, and an empty list none.
	Agents []string
	// Namespaces are patterns, of which one has to match, and Name is a pattern: * is any text and ? any one character;
	// all else is meant to the letter.
	Namespaces []string
	Name       string
	// Within are further patterns of namespaces, of which one has to match; nil matches all, and an empty list none.
	Within []string
	Kinds  []process.EventKind
	// From and Until bound the time on the host: From is included, Until is not.
	From, Until time.Time
}

// Events is the history of processes. A read looks at a bounded number of events, so that a filter which matches few of
// them takes many short reads and not a long one.
type Events interface {
	// PutEvents stores the events of one agent in one transaction, as received at the given time. Those of a stream
	// come in the order of their numbers: one whose number is not above all that were stored of its stream is known
	// already and skipped, even if it was pruned since. It returns how many were new.
	PutEvents(ctx context.Context, agent string, received time.Time, events []process.Event) (int, error)
	// EventsAfter returns up to limit events that match and whose cursor is greater, in the order of the cursors, and
	// the cursor from which to go on: that of the last event it has looked at, so that what does not match is not
	// looked at again. No event was left out once that is LastCursor.
	EventsAfter(ctx context.Context, after int64, f EventFilter,
		limit int) (events []StoredEvent, next int64, err error)
	// EventsBefore returns up to limit events that match and come before the mark, the latest to happen first, and the
	// mark from which to go on; that is zero when no more can come.
	EventsBefore(ctx context.Context, before EventMark, f EventFilter,
		limit int) (events []StoredEvent, next EventMark, err error)
	// LastCursor returns the greatest cursor that was given out, 0 when none was.
	LastCursor(ctx context.Context) (int64, error)
	// PruneEvents removes events, up to limit of those stored first that were received before the given time, and
	// forgets streams that have ended long before that. It returns how many events there were.
	PruneEvents(ctx context.Context, before time.Time, limit int) (int, error)
	EventShares
}

// EventShares is how many events there are of each agent.
type EventShares interface {
	// CountEvents returns that.
	CountEvents(ctx context.Context) (map[string]int, error)
	// TrimEvents removes events of an agent, up to limit of those that happened before its newest ones that it may
	// keep, and forgets the streams that were heard before its last 1,000. It returns how many events there were.
	TrimEvents(ctx context.Context, agent string, keep, limit int) (int, error)
}
