package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Cluster holds what several servers on one database agree on.
type Cluster interface {
	// Shared reports whether other servers may have the database open at the same time.
	Shared() bool
	// Clock returns the time of the database's own clock.
	Clock(ctx context.Context) (time.Time, error)
	// TakeLease gives a lease to the holder for the given time from now, by the database's clock. It returns false if
	// another holder has the lease. The holder calls TakeLease again to keep the lease.
	TakeLease(ctx context.Context, name, holder string, hold time.Duration) (bool, error)
	// BeatServer records that a server is online now, by the database's clock. It returns all servers that were online
	// within the given time, in the order of their start.
	BeatServer(ctx context.Context, s Server, within time.Duration) ([]Server, error)
	// DropServer records that a server is no longer online.
	DropServer(ctx context.Context, id string) error
	// ListServers returns the servers of the last 7 days, online or not, in the order of their start.
	ListServers(ctx context.Context) ([]Server, error)
	// DropLease returns a lease before its end if the holder has it.
	DropLease(ctx context.Context, name, holder string) error
}

// Hubs holds the addresses by which proxies reach the servers of a fleet.
type Hubs interface {
	// ShareHubs records that a server has the addresses now, by the database's clock. It returns all addresses that a
	// server had within the given time, in alphabetical order.
	ShareHubs(ctx context.Context, own []string, within time.Duration) ([]string, error)
}

// Server is one run of a server, as it describes itself.
type Server struct {
	ID, Name string
	Started  time.Time
	// Beat is when it was online last, by the database's clock; the store sets it.
	Beat time.Time
	// Keys are the keys whose private halves the server holds.
	Keys []string
	// Agents are the agents that the server hears. It is nil while the server hears all other servers, and so all
	// agents.
	Agents []string
}

// Facts holds values on which the servers of a fleet agree.
type Facts interface {
	// Identify stores the given facts that are not stored yet, and returns all stored facts.
	Identify(ctx context.Context, facts map[string]string) (map[string]string, error)
	// SetFact replaces a fact.
	SetFact(ctx context.Context, name, value string) error
	// SwapFact replaces a fact if it still has the value before. It returns false if the fact has another value.
	SwapFact(ctx context.Context, name, before, value string) (bool, error)
	// SkipCursors makes the cursors of later events greater than the given one, so that a reader who remembers a cursor
	// misses none of them.
	SkipCursors(ctx context.Context, to int64) error
	// Origin returns what tells the database from its copies: a copy that a server opens has another origin. run tells
	// apart the runs of the database's server; it is empty if the server is its own.
	Origin(ctx context.Context) (origin, run string, err error)
}

// ReportMark is the place of a report among the reports of its agent. Each run of an agent has a session, in which
// reports have rising numbers. A new session begins with an introduction; as a text it is greater than all earlier
// sessions.
type ReportMark struct {
	Agent   string
	Session string // empty: the agent does not number its reports; they are accepted in any order
	Number  int64
	// Hello tells that the report is an introduction. LastStates is the number of the last acknowledged report with
	// states before this one, in the same session; 0 without one.
	Hello      bool
	LastStates int64
}

// The reasons to reject an observation.
var (
	// ErrOvertaken is returned for a report that is older than an accepted report.
	ErrOvertaken = errors.New("superseded by a later report")
	// ErrOtherSession is returned for a report of another session than the session of the agent's last introduction,
	// and for a report after one that the store does not have.
	ErrOtherSession = errors.New("the agent has introduced itself in another session")
	// ErrEarlierSession is returned for an introduction in an earlier session than the session of the agent's last
	// introduction.
	ErrEarlierSession = errors.New("the agent has introduced itself in a later session")
)

// FactIncarnations is the fact that has the incarnations of the database, in the form of EncodeIncarnations.
const FactIncarnations = "incarnations"

// Incarnation is the time of a database from its creation, or from its restoration from a copy, to the next one. What
// servers and agents know of a database counts in one incarnation only.
type Incarnation struct {
	// ID is random.
	ID string `json:"id"`
	// Origin is Facts.Origin of the database.
	Origin string `json:"origin"`
	// Began is when the servers noticed the restoration, in Unix milliseconds; 0 for the first incarnation.
	Began int64 `json:"began,omitempty"`
}

// FirstRevision is less than every number of a revision that is made in the incarnation, and not less than any that was
// given out before: the time in Unix seconds at which it began.
func (i Incarnation) FirstRevision() int64 { return i.Began / 1000 }

// EncodeIncarnations returns the text of a list of incarnations, oldest first.
func EncodeIncarnations(all []Incarnation) string {
	text, _ := json.Marshal(all) // texts and numbers always encode
	return string(text)
}

// ReadIncarnations reads the text of a list, which must not be empty.
func ReadIncarnations(text string) ([]Incarnation, error) {
	var all []Incarnation
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) == 0 {
		return nil, fmt.Errorf("cannot read the incarnations of the database in %.100q", text)
	}
	return all, nil
}
