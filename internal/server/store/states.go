package store

import (
	"context"
	"time"

	"drover/internal/process"
	"drover/internal/server/past"
)

// RecordedState is a process on a host with two of its records.
type RecordedState struct {
	Agent   string
	Process process.ID
	// Before and After are nil if there is no such record.
	Before, After *past.Record
}

// Timeline tells what agents have recorded of their processes. PutEvents stores the records, PruneEvents and TrimEvents
// remove them. The times of records are by the clocks of the hosts.
type Timeline interface {
	// StatesAt returns up to limit processes after the given one, in the order of namespace, name and agent, and
	// whether more may follow. Before is the last record up to the given time. Without it, After is the first record
	// after that time. It ignores the States and the Spec of the filter.
	StatesAt(ctx context.Context, f ObservedFilter, at time.Time, after ObservedKey,
		limit int) (rows []RecordedState, more bool, err error)
	// StatesBetween examines the next limit processes after the given one. It returns those with a record after from,
	// up to to: After is the last one of these, and Before the last record up to from. next is the last examined
	// process; it is zero if no more may follow.
	StatesBetween(ctx context.Context, f ObservedFilter, from, to time.Time, after ObservedKey,
		limit int) (rows []RecordedState, next ObservedKey, err error)
	// OldestState returns the time at which the server stored the oldest record; zero if there is none.
	OldestState(ctx context.Context) (time.Time, error)
	// RevisedBetween returns up to limit revisions of all namespaces that were made after from, up to to, latest first.
	// They lack their changes.
	RevisedBetween(ctx context.Context, from, to time.Time, limit int) ([]Revision, error)
}

// Absence is a time in which the servers did not hear an agent.
type Absence struct {
	Agent string
	// Since and Until are by the clock of the servers.
	Since, Until time.Time
	// Alive is the last message before, by the clock of the host, if another run of the agent sent it than the one that
	// returned; otherwise it is zero.
	Alive time.Time
}

// StartedRun is a run of an agent.
type StartedRun struct {
	Agent string
	past.Run
}

// Stay is the time of an agent in the fleet, before its removal.
type Stay struct {
	Agent           string
	Joined, Removed time.Time
}

// FormerName is what an agent was called before. It has Key, Cloud, IP, ID and Assigned only.
type FormerName struct {
	Agent

	// Until is when the agent got other names.
	Until time.Time
}

// Runs tells when agents ran, and when the servers heard them.
type Runs interface {
	// RunsAt returns the last run of each agent that had begun by the given time on its host. An agent without such a
	// run is left out.
	RunsAt(ctx context.Context, agents []string, at time.Time) (map[string]*past.Run, error)
	// RunsBetween returns up to limit runs that began after from, up to to, by the clocks of the hosts, oldest first.
	RunsBetween(ctx context.Context, from, to time.Time, limit int) ([]StartedRun, error)
	// PutAbsence stores an absence at the return of the agent. With equal Since and Until it only notes Alive.
	PutAbsence(ctx context.Context, a Absence) error
	// AbsencesBetween returns up to limit absences that began or ended after from, up to to, by the time of the return.
	AbsencesBetween(ctx context.Context, from, to time.Time, limit int) ([]Absence, error)
	// StaysBetween returns up to limit earlier stays of agents that have joined again, which began or ended after from,
	// up to to, by the time of the removal. The last stay of a removed agent is in ListFormer.
	StaysBetween(ctx context.Context, from, to time.Time, limit int) ([]Stay, error)
	// FormerNames returns up to limit earlier names of agents, the latest first.
	FormerNames(ctx context.Context, limit int) ([]FormerName, error)
}
