package store

import (
	"context"
	"time"

	"drover/internal/process"
)

// Confirmed is the last known record of one process on the disk of an agent: the report with the highest revision. If
// Gone is set, the agent removed the process, and the other fields are empty.
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

// Removal is an agent's report that it removed the record of a process, with the revision of the removal; 0 if the
// agent does not know the revision.
type Removal struct {
	Agent    string
	Process  process.ID
	Revision uint64
	// At is the time at which the server received the report.
	At time.Time
}

// Confirmations holds the last known records of agents. Observations writes them: rows and removals with a higher
// revision than the stored one, and of the rows only those with a Spec.
type Confirmations interface {
	// AgentConfirmed returns all confirmed records of the agent, unordered and without specs.
	AgentConfirmed(ctx context.Context, agent string) ([]Confirmed, error)
	// GetConfirmed returns the confirmed records of the given processes of the agent, in their order. It skips a
	// process without a record.
	GetConfirmed(ctx context.Context, agent string, ids []process.ID) ([]Confirmed, error)
	// PruneConfirmed deletes up to limit removals that the server received before the given time, oldest first. It
	// returns their number.
	PruneConfirmed(ctx context.Context, before time.Time, limit int) (int, error)
}
