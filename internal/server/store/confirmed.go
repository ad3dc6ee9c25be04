package store

import (
	"context"
	"time"

	"drover/internal/process"
)

// Confirmed is what an agent was last known to have on its disk of one process: what it told with the highest revision.
// Where it is Gone, that was the removal of the process, and nothing follows.
type Confirmed struct {
	Process  process.ID
	Revision uint64
	Gone     bool
	Hosted   bool
	Want     process.Want
	// RegisteredAt is in Unix seconds.
	RegisteredAt int64
	Spec         *process.Spec
}

// Removal is the word of an agent that it has forgotten a process, with the revision of that; 0 where it can't tell.
type Removal struct {
	Agent    string
	Process  process.ID
	Revision uint64
	// At is when the server heard of it.
	At time.Time
}

// Confirmations is what agents are known to have had. Rows and removals of Observations bring it: those with a higher
// revision than there is, and of rows those with a Spec.
type Confirmations interface {
	// AgentConfirmed returns all that is known of the agent, in no order and without specs.
	AgentConfirmed(ctx context.Context, agent string) ([]Confirmed, error)
	// GetConfirmed returns what is known of the given processes of the agent, in their order; one of which nothing is
	// known is skipped.
	GetConfirmed(ctx context.Context, agent string, ids []process.ID) ([]Confirmed, error)
	// PruneConfirmed forgets up to limit removals that were heard of before the given time, oldest first; it returns
	// how many.
	PruneConfirmed(ctx context.Context, before time.Time, limit int) (int, error)
}
