package orders

import (
	"context"
	"time"

	"drover/internal/agent/record"
	"drover/internal/process"
)

// Reports carries the news of orders to the server.
type Reports interface {
	// Began and Finished report that an order has begun, and its outcome, until the server has it.
	Began(item string, limit time.Duration)
	Finished(item string, outcome process.Outcome)
	// Behind reports whether the server does not have all states and events yet.
	Behind() bool
	// Ask has a report made.
	Ask()
}

// Tracker tracks the orders that the agent has accepted until they end: whether they may begin, and where their
// outcome goes. It is safe for concurrent use.
type Tracker struct {
	gate    *gate
	answers *answers
	begins  begins
	reports Reports
}

// NewTracker returns a tracker of no orders. Clock is the time since boot.
func NewTracker(reports Reports, clock func() time.Duration) *Tracker {
	return &Tracker{
		gate: &gate{clock: clock, requestReport: reports.Ask}, answers: newAnswers(), reports: reports,
	}
}

// Adopt takes over the open orders of an earlier agent, and returns those that continue at once. begun reports whether
// an order has begun. The next report asks the server whether it still wants the others.
func (t *Tracker) Adopt(open []record.Entry, boot string,
	begun func(item string) bool,
) (underway []record.Entry) {
	t.answers.adopt(open)
	underway, unsure := divide(open, boot, begun)
	t.gate.adopt(underway)
	t.gate.hold(unsure)
	return underway
}

// divide separates the open orders of an earlier agent: underway goes on, and unsure needs the server's word first. A
// command from an earlier boot is in underway too, because it does not begin: it only gets its outcome.
func divide(open []record.Entry, boot string, begun func(item string) bool) (underway, unsure []record.Entry) {
	for _, e := range open {
		if e.Op == process.Query || e.Op.Info().RunsCommands && e.Boot != boot || begun(e.Item) {
			underway = append(underway, e)
		} else {
			unsure = append(unsure, e)
		}
	}
	return underway, unsure
}

// MayBegin reports whether an order whose turn has come is still wanted. It waits for the server's word if that may
// not be so, until ctx ends, which is an error.
func (t *Tracker) MayBegin(ctx context.Context, item string) (bool, error) {
	return t.gate.mayBegin(ctx, item)
}

// Busy reports whether commands are open that may begin or have begun.
func (t *Tracker) Busy() bool { return t.gate.busy() }

// Began notes that an order has begun and how long it may take.
func (t *Tracker) Began(item string, limit time.Duration) {
	t.begins.began(item, limit)
	if !t.answers.began(item, limit) {
		t.reports.Began(item, limit)
	}
}

// Finished notes the outcome of an order, which is on disk.
func (t *Tracker) Finished(item string, outcome process.Outcome) {
	t.gate.forget(item)
	t.begins.endWait(item)
	if !t.answers.resolve(item, outcome) {
		t.reports.Finished(item, outcome)
	}
}
