package store

import (
	"context"
	"errors"
	"time"
)

// Cluster is what several servers on one database agree on.
type Cluster interface {
	// Shared reports whether others may have the database open at the same time.
	Shared() bool
	// Clock returns the time of the database's own clock.
	Clock(ctx context.Context) (time.Time, error)
	// TakeLease gives a lease to the holder for so long from now, by the database's clock, unless another one has it:
	// then it returns false. Who has it takes it again to keep it.
	TakeLease(ctx context.Context, name, holder string, hold time.Duration) (bool, error)
	// BeatServer notes that a server is there now, by the database's clock, and returns all that were so within the
	// time, in the order of their start.
	BeatServer(ctx context.Context, s Server, within time.Duration) ([]Server, error)
	// DropServer notes that a server is there no longer.
	DropServer(ctx context.Context, id string) error
	// DropLease gives a lease back before its end, if the holder has it.
	DropLease(ctx context.Context, name, holder string) error
}

// Server is one run of a server, by its own word.
type Server struct {
	ID, Name string
	Started  time.Time
	// Keys are the keys whose private halves it holds.
	Keys []string
	// Agents are those that it hears; nil while it hears all other servers, and so all that they hear.
	Agents []string
}

// Facts are what the servers of a fleet agree on.
type Facts interface {
	// Identify stores those of the facts about the fleet that are not stored yet, and returns all that are.
	Identify(ctx context.Context, facts map[string]string) (map[string]string, error)
	// SetFact replaces one of them.
	SetFact(ctx context.Context, name, value string) error
	// SwapFact replaces one of them that still has the value before, and returns false where it has another one.
	SwapFact(ctx context.Context, name, before, value string) (bool, error)
}

// ReportMark is the place of a report among those of its agent. Each run of an agent has a session, in which reports
// have rising numbers; a new session begins with an introduction, and is greater as a text than those before it.
type ReportMark struct {
	Agent   string
	Session string // empty: an agent that does not number its reports; they are taken as they come
	Number  int64
	// Hello says that it is an introduction.
	Hello bool
}

// Reasons why an observation is not taken.
var (
	// ErrOvertaken is returned for a report that is older than one which was taken.
	ErrOvertaken = errors.New("superseded by a later report")
	// ErrOtherSession is returned for a report of another session than that of the agent's last introduction.
	ErrOtherSession = errors.New("the agent has introduced itself in another session")
	// ErrEarlierSession is returned for an introduction in a session that comes before that of the agent's last
	// introduction.
	ErrEarlierSession = errors.New("the agent has introduced itself in a later session")
)
