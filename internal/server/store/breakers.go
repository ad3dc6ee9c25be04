package store

import (
	"context"
	"time"

	"drover/internal/process"
)

// Breaker withholds the relaunches of one process on all hosts.
type Breaker struct {
	// Process is never a copy.
	Process process.ID
	// Revision is the revision of the spec whose relaunches it withholds; 0 if it is unknown.
	Revision int64
	// Cause is why Failed of Hosts failed, and Agent is the host that failed last.
	Cause         process.CauseID
	Failed, Hosts int
	Agent         string
	// Opened is the time of the opening; the breaker closes at Until, if nobody closes it before.
	Opened, Until time.Time
	// Closed is zero while the breaker is open. ClosedBy is the person who closed it; empty if it closed by itself.
	Closed   time.Time
	ClosedBy string
	// Told says that the agents and the readers of events know about the closing.
	Told bool
}

// Breakers stores the last breaker of each process.
type Breakers interface {
	// OpenBreaker stores a breaker in place of the last one of its process. It returns ErrExists if that is open,
	// unless it opened at the time instead.
	OpenBreaker(ctx context.Context, b Breaker, instead time.Time) error
	// CloseBreaker closes the breaker of a process, and returns it. It changes nothing if the breaker is closed. It
	// returns ErrNotFound if the process never had a breaker.
	CloseBreaker(ctx context.Context, id process.ID, at time.Time, by string) (Breaker, error)
	// BreakerTold sets Told of the closed breaker that opened at that time.
	BreakerTold(ctx context.Context, id process.ID, opened time.Time) error
	// ListBreakers returns all breakers, ordered by process.
	ListBreakers(ctx context.Context) ([]Breaker, error)
}
