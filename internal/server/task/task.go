// Package task is the pure machine of one item: one operation on one process of one agent, as the server sees it. It
// decides how an event changes an item and how long the item may wait. It keeps no clock, stores nothing and sends
// nothing. The engine commits its decisions, and the stores prove in storetest that their statements agree with it.
package task

import (
	"fmt"
	"time"

	"drover/internal/process"
)

// State is the progress of an item. It only rises.
type State int

// The states, rising.
const (
	Pending  State = iota // not sent, as far as the server knows
	Sent                  // sent, no receipt yet
	Accepted              // the agent has journalled it
	Begun                 // the agent executes it
	Done                  // it has its outcome
)

// States returns all states, rising.
func States() []State { return []State{Pending, Sent, Accepted, Begun, Done} }

// String returns the state's word in logs and in docs/states.md.
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Sent:
		return "sent"
	case Accepted:
		return "accepted"
	case Begun:
		return "begun"
	case Done:
		return "done"
	}
	return fmt.Sprintf("state %d", int(s))
}

// The times an item may take.
const (
	// WaitLimit is how long an item may wait, from its creation, for the agent to begin.
	WaitLimit = 10 * time.Minute
	// grace is added to the limit that an agent reports when it begins, so that its report can arrive.
	grace = 15 * time.Second
	// LongestRun is the greatest accepted limit.
	LongestRun = 24 * time.Hour
	// firstResend and lastResend bound the wait between two attempts: it doubles from the first to the last.
	firstResend = time.Second
	lastResend  = 10 * time.Second
	// absentRetry is the retry delay for an agent that may reconnect.
	absentRetry = 500 * time.Millisecond
)

// Unavailable begins the text of every AgentUnavailable outcome.
const Unavailable = "agent not found or offline"

// sentOnly ends the text of an item that ended while it was sent and nothing proved that the agent has it.
const sentOnly = ": it was sent the operation and has not answered; it may have begun, and never begins later"

// NeverTaken reports whether an outcome AgentUnavailable with this text ended an item that no agent had taken as far as
// the server knew. If the agent asks a server before it begins the item, the item then never begins: the answer to the
// question would have made the item Accepted.
func NeverTaken(text string) bool { return text == Unavailable || text == Unavailable+sentOnly }

// Asked returns the text of an outcome AgentUnavailable of an item whose agent asks a server before it begins.
func Asked(text string) string {
	if NeverTaken(text) {
		return Unavailable + ": it has not taken the operation, and never begins it"
	}
	return text
}

// unavailable returns the text for an item that ends in this state. If the agent has or may have the item, the text
// must not suggest that the operation did not begin.
func unavailable(s State) string {
	switch s {
	case Sent:
		return Unavailable + sentOnly
	case Accepted:
		return Unavailable + ": it has taken the operation, and may have begun"
	case Begun:
		return Unavailable + ": it had begun"
	case Pending, Done:
	}
	return Unavailable
}

// Item is the part of an item that the state machine needs.
type Item struct {
	State State
	// Attempts counts how often it was sent.
	Attempts int
	// Due is when it is to be sent (again); zero once it no longer is.
	Due time.Time
	// Deadline is when the item ends without the agent's word.
	Deadline time.Time
	// Outcome is set when Done, and never changes.
	Outcome *process.Outcome
}

// New returns a new item. Its agent must accept it within limit, which is at most WaitLimit; 0 means WaitLimit.
func New(created time.Time, limit time.Duration) Item {
	if limit <= 0 {
		limit = WaitLimit
	}
	return Item{Due: created, Deadline: created.Add(min(limit, WaitLimit))}
}

// Next returns the item after an event. An event that is late, repeated or premature is not an error: the item rises as
// far as the event proves, and never falls. An item that is Done does not change.
func Next(it Item, e Event, now time.Time) Item {
	if it.State == Done {
		return it
	}
	switch e := e.(type) {
	case Unheard:
		if it.State <= Sent {
			it.State = Sent
			it.Due = now.Add(resendAfter(it.Attempts))
			it.Attempts++
		}
	case Absent:
		if it.State <= Sent {
			it.Due = now.Add(absentRetry)
		}
	case Received:
		if it.State < Accepted && e.Until.After(it.Deadline) {
			it.Deadline = e.Until
		}
		it.rise(Accepted)
	case Began:
		if it.State < Begun { // a repeat must not postpone the deadline
			it.rise(Begun)
			it.Deadline = now.Add(min(max(e.Limit, 0), LongestRun) + grace)
		}
	case Finished:
		it.finish(e.Outcome)
	case Refused:
		it.finish(process.Outcome{Fault: process.Failed, Text: e.Reason})
	case Cancelled:
		if it.State == Pending {
			it.finish(process.NotBegun())
		}
	case Unreachable:
		if it.State <= Sent {
			it.finish(process.Outcome{Fault: process.AgentUnavailable, Text: unavailable(it.State)})
		}
	case Overdue:
		if now.Before(it.Deadline) {
			break
		}
		if e.Away || it.State == Sent {
			it.finish(process.Outcome{Fault: process.AgentUnavailable, Text: unavailable(it.State)})
		} else {
			it.finish(process.Outcome{Fault: process.Failed, Text: "no result by " + it.Deadline.Format(time.RFC3339)})
		}
	}
	return it
}

func (it *Item) rise(s State) {
	it.State = max(it.State, s)
	it.Due = time.Time{}
}

func (it *Item) finish(o process.Outcome) {
	it.State, it.Due, it.Outcome = Done, time.Time{}, &o
}

// resendAfter doubles from firstResend to lastResend with the number of attempts.
func resendAfter(attempts int) time.Duration {
	return min(firstResend<<min(attempts, 10), lastResend)
}
