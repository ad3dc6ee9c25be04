package store

import (
	"context"

	"drover/internal/server/task"
)

// Counts are counts over the whole store.
type Counts struct {
	// Processes counts the observed ones by process.Status.State.
	Processes map[string]int
	// Hosted, Flapping, Unhealthy and Drifted count those that are so, in whatever state.
	Hosted, Flapping, Unhealthy, Drifted int
	// Items counts those that are not done, by state.
	Items map[task.State]int
}

// Counting counts. It reads all that is observed, so it is not for every moment.
type Counting interface {
	Counts(ctx context.Context) (Counts, error)
}
