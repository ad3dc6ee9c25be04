package store

import (
	"context"
	"time"

	"drover/internal/process"
	"drover/internal/server/task"
)

// Listing is what the lists of our own API read. A list is walked by handing in the last row of the page before; rows
// that come and go meanwhile are seen or not, and no other is skipped or repeated.
type Listing interface {
	// ListObserved returns up to limit rows that come after the given one, in the order of namespace, name and agent,
	// and whether there may be more: fewer come where they are large, but one at least. The zero key is before all
	// rows.
	ListObserved(ctx context.Context, f ObservedFilter, after ObservedKey,
		limit int) (rows []Observed, more bool, err error)
	// ListTasks returns up to limit tasks that come after the one of the given number, newest first. 0 is before all.
	ListTasks(ctx context.Context, f TaskFilter, after int64, limit int) ([]TaskSummary, error)
	// GetTask returns one task; ErrNotFound for an unknown one or one that belongs to another app (an empty app matches
	// any).
	GetTask(ctx context.Context, id, app string) (TaskSummary, error)
	// ListWaiting returns up to limit items that are not done, the oldest first; questions are left out.
	ListWaiting(ctx context.Context, f WaitingFilter, limit int) ([]Waiting, error)
}

// ObservedFilter chooses rows of Observations. An empty field matches all.
type ObservedFilter struct {
	// Namespace and Name are patterns, in which * is any text and ? any one character; all else is meant to the letter.
	Namespace, Name string
	// Within are patterns of namespaces, of which one has to match, too; nil matches all, and an empty list none.
	Within []string
	// Process is the one that is meant, to the letter.
	Process process.ID
	// Agents are keys; nil matches all, and an empty list none.
	Agents []string
	// States are those of process.Status.
	States []string
	// Spec asks for the specs too; without, they are nil.
	Spec bool
}

// TaskFilter chooses tasks. An empty field matches all.
type TaskFilter struct {
	App string
	// Done chooses those whose items are all done, or those where one is not.
	Done *bool
}

// TaskSummary is a task without its items.
type TaskSummary struct {
	// Number is its place in lists: a later task has a higher one.
	Number    int64
	ID        string
	App       string
	User      string
	RequestID string
	Created   time.Time
	// Op and Process are of the first request, Requests counts them all.
	Op       process.Op
	Process  process.ID
	Requests int
	// Keys counts the result keys, Open those without an outcome and Failed those with a fault.
	Keys, Open, Failed int
}

// WaitingFilter chooses items that are not done. An empty field matches all.
type WaitingFilter struct {
	// Process is the one that is meant, to the letter.
	Process process.ID
	// Before bounds the time at which they were asked for; it is not included.
	Before time.Time
}

// Waiting is an item that is not done, and who asked for it.
type Waiting struct {
	Task      string
	App, User string
	Created   time.Time
	Agent     string
	Process   process.ID
	Op        process.Op
	State     task.State
}
