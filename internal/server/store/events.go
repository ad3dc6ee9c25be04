package store

import (
	"context"
	"time"

	"drover/internal/process"
)

// NewEvent is an event of an agent, and the JSON of it that is stored.
type NewEvent struct {
	process.Event
	Body string
}

// StoredEvent is an event as the server stores it.
type StoredEvent struct {
	// Cursor rises with every stored event, and no later event has a smaller cursor. A reader that remembers it misses
	// nothing and reads nothing twice.
	Cursor int64
	Agent  string // public nkey
	// Received is the time at which the server stored the event.
	Received time.Time
	Event    process.Event
}

// Mark returns the event's place among the events of all hosts, in the order of their times.
func (e *StoredEvent) Mark() EventMark { return EventMark{e.Event.At, e.Cursor} }

// Of returns the process on a host that the event is about.
func (e *StoredEvent) Of() ObservedKey { return ObservedKey{Agent: e.Agent, Process: e.Event.Process} }

// EventMark is a place in the order of time. The zero mark comes after all events.
type EventMark struct {
	At     int64 // Unix milliseconds
	Cursor int64
}

// EventFilter selects events; a zero field matches all.
type EventFilter struct {
	// Agents are keys; nil matches all, and an empty list none.
	Agents []string
	// Namespaces are patterns, of which one must match; Name is a pattern. In a pattern * matches any text and ? one
	// character; every other character matches itself.
	Namespaces []string
	Name       string
	// Copies also selects the copies of the processes that Name selects (process.CutCopy). No index serves it.
	Copies bool
	// Within are further patterns of namespaces, of which one must match; nil matches all, and an empty list none.
	Within []string
	Kinds  []process.EventKind
	// From and Until bound the time on the host: From is inclusive, Until exclusive.
	From, Until time.Time
}

// Events is the history of processes. A read examines a limited number of events, so a filter with few matches takes
// many short reads instead of a long one.
type Events interface {
	// PutEvents stores the events of one agent in one transaction, with the given time of receipt. The events of a
	// stream must be in the order of their numbers. PutEvents skips an event whose number is not greater than all
	// stored numbers of its stream, even if the stored events were pruned since. It returns the number of new events.
	PutEvents(ctx context.Context, agent string, received time.Time, events []NewEvent) (int, error)
	// EventsAfter returns up to limit matching events with a greater cursor, in the order of the cursors. It also
	// returns the cursor from which to continue, which is the cursor of the last examined event, so that no event is
	// examined twice. If that cursor is LastCursor, no event is left.
	EventsAfter(ctx context.Context, after int64, f EventFilter,
		limit int) (events []StoredEvent, next int64, err error)
	// EventsBefore returns up to limit matching events before the mark, the latest first, and the mark from which to
	// continue. The mark is zero if no more events can follow.
	EventsBefore(ctx context.Context, before EventMark, f EventFilter,
		limit int) (events []StoredEvent, next EventMark, err error)
	// LastCursor returns the greatest cursor so far; 0 if there is none.
	LastCursor(ctx context.Context) (int64, error)
	// PruneEvents removes up to limit events that the server received before the given time, in the order in which they
	// were stored. It also deletes the records of streams that ended long before that. It returns the number of removed
	// events.
	PruneEvents(ctx context.Context, before time.Time, limit int) (int, error)
	EventShares
}

// EventShares counts and limits the events of each agent.
type EventShares interface {
	// LastEvents returns the last stored number of each of the latest runs of an agent, by their streams.
	LastEvents(ctx context.Context, agent string, runs int) (map[string]uint64, error)
	// CountEvents returns the number of events of each agent.
	CountEvents(ctx context.Context) (map[string]int, error)
	// TrimEvents removes up to limit events of an agent that are older than the newest keep events. It also deletes the
	// records of all but the agent's last 1,000 streams. It returns the number of removed events.
	TrimEvents(ctx context.Context, agent string, keep, limit int) (int, error)
}
