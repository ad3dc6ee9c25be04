package store

import (
	"context"
	"time"

	"drover/internal/process"
)

// StoredEvent is an event as the server keeps it.
type StoredEvent struct {
	// Cursor rises with every event that is stored: a reader that remembers it misses nothing and reads nothing twice.
	Cursor int64
	Agent  string // public nkey
	Event  process.Event
}

// EventFilter says which events are wanted; a zero field matches all.
type EventFilter struct {
	Agents     []string
	Namespaces []string
	Name       string
	Kinds      []process.EventKind
	// From and Until bound the time on the host; Until is left out.
	From, Until time.Time
}

// Events is the history of processes.
type Events interface {
	// PutEvents stores the events of one agent in one transaction. One that is stored already, by stream and number, is
	// skipped. It returns how many were new.
	PutEvents(ctx context.Context, agent string, events []process.Event) (int, error)
	// EventsAfter returns up to limit events that match and whose cursor is greater, oldest first, and the cursor from which
	// to go on: that of the last event it has looked at, so that what does not match is not looked at again.
	EventsAfter(ctx context.Context, after int64, f EventFilter, limit int) (events []StoredEvent, next int64, err error)
	// EventsBefore returns up to limit events that match and whose cursor is smaller (0: any), newest first.
	EventsBefore(ctx context.Context, before int64, f EventFilter, limit int) ([]StoredEvent, error)
	// LastCursor returns the greatest cursor, 0 when there is no event.
	LastCursor(ctx context.Context) (int64, error)
	// PruneEvents removes up to limit of the oldest events that are from before the given time or more than keep; it returns how
	// many.
	PruneEvents(ctx context.Context, before time.Time, keep, limit int) (int, error)
}
