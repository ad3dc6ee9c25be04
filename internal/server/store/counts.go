package store

import (
	"context"

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
