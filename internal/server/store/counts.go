package store

import (
	"context"
	"time"

	"drover/internal/server/task"
)

// Counts are counts over the whole store.
type Counts struct {
	// Processes counts the observed processes by process.Status.State.
	Processes map[string]int
	// Hosted, Flapping, Unhealthy and Drifted count the processes with that property, in any state.
	Hosted, Flapping, Unhealthy, Drifted int
	// Items counts the unfinished items, by state.
	Items map[task.State]int
}

// Counting counts. It reads all observations, so call it rarely.
type Counting interface {
	Counts(ctx context.Context) (Counts, error)
}

// Watching lets a server keep a picture of all observations: LastReports tells which agents have told something since
// the last look, and ObservedOn reads their rows.
type Watching interface {
	// LastReports returns the place of the last report that told something, by agent. It leaves out an agent that does
	// not number its reports. Observations change in the transaction that changes the place, or soon after it.
	LastReports(ctx context.Context) (map[string]ReportPlace, error)
	// ObservedOn calls fn with the rows of agents, unordered and with their specs. fn must not call the Store.
	ObservedOn(ctx context.Context, agents []string, fn func(Observed)) error
}

// ReportPlace is the place of a report among the reports of its agent, as ReportMark.
type ReportPlace struct {
	Session string
	Number  int64
}

// CallerSelection is the exact processes that somebody has chosen, until an operation names them. Only the same app and
// user can read it.
type CallerSelection struct {
	ID, App, User string
	Until         time.Time
	// Filter is what selected the processes; Targets are the processes. Both are JSON.
	Filter  string
	Targets []byte
}

// CallerSelections holds selections for some minutes.
type CallerSelections interface {
	// HoldSelection stores a selection, and deletes the oldest of its app and user beyond most, or with ofApp the
	// oldest of its app.
	HoldSelection(ctx context.Context, s CallerSelection, most int, ofApp bool) error
	// PruneSelections removes up to limit selections that ended before the given time. It returns their number.
	PruneSelections(ctx context.Context, before time.Time, limit int) (int, error)
	// FindSelection returns a selection. It returns ErrNotFound for an unknown id, for a selection of another app or
	// user, and for one that has ended by now.
	FindSelection(ctx context.Context, id, app, user string, now time.Time) (CallerSelection, error)
}
