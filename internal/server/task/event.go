package task

import (
	"time"

	"drover/internal/process"
)

// Event is something that happened to an item. The types below are all there are.
type Event interface {
	// String returns the event's words in docs/states.md.
	String() string
	event()
}

type (
	// Unheard means that the item was sent and no receipt came in time.
	Unheard struct{}
	// Absent means that the agent has no subscription and may reconnect.
	Absent struct{}
	// Received means that the agent has journalled the item, and may begin it until Until; zero means its present
	// deadline.
	Received struct{ Until time.Time }
	// Refused means that the agent rejects the item, or that the server cannot send it; the caller sees Reason.
	Refused struct{ Reason string }
	// Unreachable means that the agent has no subscription and has been offline for too long to wait.
	Unreachable struct{}
	// Began means that the agent executes the item and intends to finish within Limit from now.
	Began struct{ Limit time.Duration }
	// Finished has the agent's outcome.
	Finished struct{ Outcome process.Outcome }
	// Cancelled means that the item never begins: the caller cancelled it, and no agent has it or may get it.
	Cancelled struct{}
	// Overdue means that the deadline may have passed; Away is whether the agent is offline then.
	Overdue struct{ Away bool }
)

func (Unheard) event()     {}
func (Absent) event()      {}
func (Received) event()    {}
func (Refused) event()     {}
func (Unreachable) event() {}
func (Began) event()       {}
func (Finished) event()    {}
func (Cancelled) event()   {}
func (Overdue) event()     {}

func (Unheard) String() string     { return "no receipt" }
func (Absent) String() string      { return "nobody there yet" }
func (Received) String() string    { return "receipt" }
func (Refused) String() string     { return "refused" }
func (Unreachable) String() string { return "nobody there for too long" }
func (Began) String() string       { return "begun" }
func (Finished) String() string    { return "outcome" }

func (Cancelled) String() string { return "cancelled" }

func (e Overdue) String() string {
	if e.Away {
		return "deadline, agent away"
	}
	return "deadline"
}

// Events returns an example of every event.
func Events() []Event {
	return []Event{
		Unheard{},
		Absent{},
		Received{},
		Refused{Reason: "the agent's reason"},
		Unreachable{},
		Began{Limit: time.Minute},
		Finished{Outcome: process.Outcome{Text: process.Success}},
		Cancelled{},
		Overdue{Away: true},
		Overdue{},
	}
}
