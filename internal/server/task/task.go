// Package task is the pure machine of one item: one operation on one process of one agent, as the server sees it. It
// decides how an event changes an item and how long the item may wait. It keeps no clock, stores nothing and sends
// nothing. The engine commits its decisions, and the stores prove in storetest that their statements agree with it.
package task

import (
	"fmt"
	"time"

	"drover/internal/process"
)

// State says how far an item has come. It only rises.
type State int

// The states, rising.
const (
	Pending  State = iota // nobody has it, as far as the server knows
	Sent                  // sent, no receipt yet
	Accepted              // the agent has journalled it
	Begun                 // the agent works on it
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
	// grace is added to the limit that an agent names when it begins, for its report to arrive.
	grace = 15 * time.Second
	// LongestRun is the greatest limit that is believed.
	LongestRun = 24 * time.Hour
	// firstResend and lastResend bound the wait between two attempts: it doubles from the first to the last.
	firstResend = time.Second
	lastResend  = 10 * time.Second
	// absentRetry is the wait before an agent that may come back is tried again.
	absentRetry = 500 * time.Millisecond
)

// Unavailable begins the text of every AgentUnavailable outcome.
const Unavailable = "agent not found or offline"

// unavailable is the text for an item that came so far: of what the agent has, or may have, nobody may believe that it
// was not begun.
func unavailable(s State) string {
	switch s {
	case Sent:
		return Unavailable + ": it was sent the operation and has not answered; it may have begun, and begins no more"
	case Accepted:
		return Unavailable + ": it has taken the operation, and may have begun"
	case Begun:
		return Unavailable + ": it had begun"
	case Pending, Done:
	}
	return Unavailable
}

// Item is what the machine knows of an item.
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

// New returns an item as it is created. Its agent has to take it within the limit, which is WaitLimit at most; 0 stands
// for that.
func New(created time.Time, limit time.Duration) Item {
	if limit <= 0 {
		limit = WaitLimit
	}
	return Item{Due: created, Deadline: created.Add(min(limit, WaitLimit))}
}

// Next returns what the event makes of the item. An event that comes late, twice, or before its turn is no error: the
// item rises as far as the event proves and never falls, and an item that is Done stays as it is.
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
		if it.State < Begun { // said again, it changes nothing: whoever repeats it must not put off the end
			it.rise(Begun)
			it.Deadline = now.Add(min(max(e.Limit, 0), LongestRun) + grace)
		}
	case Finished:
		it.finish(e.Outcome)
	case Refused:
		it.finish(process.Outcome{Fault: process.Failed, Text: e.Reason})
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

// resendAfter doubles from firstResend to lastResend with the attempts made so far.
func resendAfter(attempts int) time.Duration {
	return min(firstResend<<min(attempts, 10), lastResend)
}
