package story

import (
	"slices"
	"strings"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// Operation is an operation that has ended and was applied to the process.
type Operation struct {
	Entry   *record.Entry
	Outcome process.Outcome
	// Wrote is the part of the outcome's text that a command wrote. Stored tells that the record was replaced.
	Wrote  string
	Stored bool
	// Record and Runtime are what was known before it was applied.
	Record  *record.Record
	Runtime record.Runtime
	// Prior is the state before it began. It began at Since, in Unix milliseconds.
	Prior lifecycle.State
	Since int64
	// Output is the last output of the run if the process does not run any more.
	Output string
	// How describes the last exit, such as "exit status 3".
	How string
	// Over is the end of a resident process that has succeeded within the check of its start and needs no relaunch; nil
	// if there is none.
	Over *End
}

// BlameOperation notes an operation that has failed; wrote is the part of the outcome's text that a command wrote. It
// stands until another operation succeeds, or until something else happens to the process.
func (p *Process) BlameOperation(now time.Time, e *record.Entry, o process.Outcome, wrote string) {
	failed := o.Fault == process.Failed || o.Fault == process.CheckFailed
	if !failed || o.Cause == "" || !e.Op.Info().Acts {
		return
	}
	line, rest := headline(o.Text, wrote)
	p.Blame(now, o.Cause, line)
	p.Runtime.Cause.Evidence = append([]string{By(string(e.Op)+requested, e.Actor)}, rest...)
}

const requested = " requested"

// Relaunching drops from the cause who has requested the operation before: nobody has requested the relaunch.
func (p *Process) Relaunching() {
	all := p.Runtime.Cause.Evidence // BlameOperation puts the request first; the rest may be what a program has written
	if len(all) == 0 {
		return
	}
	if op, _, found := strings.Cut(all[0], requested); found && process.Op(op).Known() {
		p.Runtime.Cause.Evidence = slices.Clone(all[1:])
	}
}

// Operated tells what an operation has done. It returns no event for an operation that was not needed or was not
// allowed to begin.
func (p *Process) Operated(c Change, op *Operation) []process.Event {
	if op.Entry.Op.Info().Event == "" {
		return nil // it only asks
	}
	c = op.change(c)
	e := c.event(op.Entry.Op.Info().Event, Caller(op.Entry.Actor, op.Entry.Item), process.Cause{})
	e.PID = p.PID()
	switch op.Outcome.Fault {
	case process.None:
	case process.Failed, process.CheckFailed:
		line, _ := headline(op.Outcome.Text, op.Wrote)
		e.Kind, e.Cause = process.EventFailed, process.Cause{ID: op.Outcome.Cause, Text: line}
		if !binary(op.Wrote) {
			e.Output = op.Wrote
		}
	case process.NotRunning:
		if !op.Stored {
			return nil
		}
		e.Cause = process.Cause{ID: process.CauseStopped, Text: "it was not running, and drover does not relaunch it"}
		return []process.Event{e}
	case process.AgentUnavailable, process.AlreadyRunning, process.IllegalOp, process.AlreadyRegistered,
		process.Cancelled:
		return nil
	}
	switch e.Kind {
	case "":
		return nil
	case process.EventStopped, process.EventKilled:
		p.stopped(c, op, &e)
	case process.EventRestarted:
		p.restarted(op, &e)
	case process.EventSignalled:
		e.Cause.Text = op.notes()
	case process.EventStarted:
		if p.Runtime.Adopted {
			e.Cause.Text = op.notes()
		}
	case process.EventUnregistered:
		if was := op.Runtime.Process; was != nil {
			e.PID = was.PID
		}
	default:
	}
	if p.Record == nil && op.Record != nil {
		e.ReportID = op.Record.Spec.AlarmID // also for a process that was forgotten
	}
	events := p.revised(op, &e)
	if e.Kind == process.EventStarted || e.Kind == process.EventRestarted || e.Kind == process.EventFailed {
		events = append(events, p.runOfOperation(c, op)...)
		if op.Over != nil {
			events = append(events, p.Ended(c, *op.Over, nil)...)
		}
	}
	if p.Record != nil && p.Record.GivenUp && (op.Record == nil || !op.Record.GivenUp) {
		events = append(events, p.GivenUp(c)...)
	}
	return append(events, p.Flapping(c)...)
}

// OperatedBefore tells of an operation that an earlier agent has ended and could not tell of any more. It knows only
// what the journal has.
func (p *Process) OperatedBefore(entry *record.Entry) []process.Event {
	o := entry.Outcome
	if entry.Op.Info().Event == "" {
		return nil
	}
	e := process.Event{
		At: entry.Ended, Kind: entry.Op.Info().Event, Actor: Caller(entry.Actor, entry.Item), PID: p.PID(),
	}
	if was := p.Runtime.Ended; e.PID == 0 && was != nil {
		e.PID = was.PID
	}
	switch {
	case o.Fault == process.Failed || o.Fault == process.CheckFailed:
		e.Kind, e.Cause = process.EventFailed, process.Cause{ID: o.Cause, Text: o.Text}
	case o.Fault != process.None:
		return nil
	}
	return []process.Event{e}
}

// revised returns the event of an operation, after an event of its own for a changed spec.
func (p *Process) revised(op *Operation, e *process.Event) []process.Event {
	if p.Record == nil || !op.Stored {
		return []process.Event{*e}
	}
	e.Revision = p.Record.Spec.Revision
	if op.Record == nil || op.Record.Spec.Same(&p.Record.Spec) {
		return []process.Event{*e}
	}
	if e.Kind == process.EventUpdated {
		e.Former = op.Record.Spec.Revision
		return []process.Event{*e}
	}
	change := process.Event{
		Kind: process.EventUpdated, From: e.From, To: e.From, Actor: e.Actor,
		Revision: e.Revision, Former: op.Record.Spec.Revision, ReportID: e.ReportID,
	}
	if was := op.Runtime.Process; was != nil {
		change.PID = was.PID
	}
	return []process.Event{change, *e}
}

// notes are what a success says besides; empty if it says nothing.
func (op *Operation) notes() string {
	line, _ := headline(op.Outcome.Text, op.Wrote)
	if line == process.Success {
		return ""
	}
	return strings.TrimPrefix(line, process.Success+": ")
}

// change corrects the states before and after the operation. The agent may not know a process before or after an
// operation, although the process keeps its state.
func (op *Operation) change(c Change) Change {
	c.From = op.Prior
	switch name := op.Entry.Op; {
	case name == process.Unregister:
		c.To = c.From
	case op.Record != nil:
		if c.From == lifecycle.Unknown && op.Runtime.Process != nil { // the agent started during the operation
			c.From = lifecycle.Running
		}
	case name == process.Stop || name == process.Kill:
		c.From = lifecycle.Running // otherwise it would not have succeeded
	case name != process.Start && name != process.Restart && c.To == lifecycle.Running:
		c.From = c.To // drover found it in that state
	}
	return c
}

// restarted adds how the former instance ended, and which instance has replaced it.
func (p *Process) restarted(op *Operation, e *process.Event) {
	was := op.Runtime.Process
	if was == nil || p.Runtime.Process != nil && *p.Runtime.Process == *was {
		return
	}
	end := "was ended"
	if op.Over == nil { // otherwise the last exit is that of the new instance
		e.Exit = p.exitSince(op.Since)
	}
	if e.Exit != nil {
		end = op.How
	}
	e.Cause.Text = "pid " + itoa(was.PID) + " " + end
	if p.Runtime.Process != nil {
		e.Cause.Text = Join(e.Cause.Text, "pid "+itoa(p.PID())+" has its place")
	}
}

// stopped adds how the instance ended.
func (p *Process) stopped(c Change, op *Operation, e *process.Event) {
	e.Exit = p.exitSince(op.Since)
	end := End{Began: p.Runtime.LastStartAt, Words: op.Output}
	if was := p.Runtime.Ended; was != nil {
		e.PID, end.Born = was.PID, was.StartedAfterBoot()
	}
	end.describe(e, c)
	if op.Outcome.Fault == process.None {
		e.Cause.Text = op.notes()
	}
	p.closeRun(c.Now, e, p.Runtime.LastStartAt)
}

// StoppedByPeer tells that an operation on another name of the process has ended its instance, which had that pid. The
// operation began at since, in Unix milliseconds.
func (p *Process) StoppedByPeer(c Change, by *record.Entry, pid int, since int64) process.Event {
	e := c.event(by.Op.Info().Event, Caller(by.Actor, by.Item), p.Record.Rest)
	e.PID, e.Exit = pid, p.exitSince(since)
	return e
}
