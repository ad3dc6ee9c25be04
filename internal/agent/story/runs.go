package story

import (
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/clip"
	"drover/internal/process"
)

const (
	// maxRuns is how many runs a history keeps.
	maxRuns = 10
	// maxRunOutput is how much output of a run a history keeps, in bytes.
	maxRunOutput = 2 << 10
)

func runOutput(output string) string { return clip.Tail(output, maxRunOutput) }

// OpenRun returns the run under way, or nil if none is known.
func (p *Process) OpenRun() *process.Run {
	if len(p.History.Runs) == 0 || p.History.Runs[0].Ended != 0 {
		return nil
	}
	return &p.History.Runs[0]
}

// runBegun notes a run under way, unless an earlier agent did so.
func (p *Process) runBegun(now time.Time) {
	p.History.Owed = false
	if open := p.OpenRun(); open == nil || open.PID != p.PID() {
		p.noteRun(process.Run{Started: now.UnixMilli(), PID: p.PID()})
	}
}

// runRefused notes a run that could not begin.
func (p *Process) runRefused(now time.Time, why string) {
	p.History.Owed = false
	p.noteRun(process.Run{Started: now.UnixMilli(), Ended: now.UnixMilli(), Output: runOutput(why)})
}

// noteRun adds a run. It closes a run that still seems to be under way.
func (p *Process) noteRun(run process.Run) {
	runs := p.History.Runs
	if open := p.OpenRun(); open != nil {
		over := *open
		over.Ended = run.Started
		runs = append([]process.Run{over}, runs[1:]...)
	}
	p.History.Runs = append([]process.Run{run}, runs[:min(len(runs), maxRuns-1)]...)
}

// closeRun records the end in an event as the end of a run, unless an earlier agent did so. It reports whether the
// process has a history. began is in Unix seconds.
func (p *Process) closeRun(now time.Time, e *process.Event, began int64) bool {
	if !p.KeepsRuns() {
		return false
	}
	if p.OpenRun() == nil {
		if runs := p.History.Runs; len(runs) > 0 && runs[0].Started >= began*1000 {
			return true
		}
		p.noteRun(process.Run{Started: began * 1000, PID: e.PID})
	}
	over := p.History.Runs[0]
	over.Ended, over.Exit, over.Output = now.UnixMilli(), e.Exit, runOutput(e.Output)
	p.History.Runs = append([]process.Run{over}, p.History.Runs[1:]...)
	return true
}

// judgeRun turns the event of an end into that of a run that succeeded or failed. If nobody saw how the run ended, the
// event stays as it is.
func (p *Process) judgeRun(e *process.Event) {
	switch {
	case e.Exit == nil || !e.Exit.Known:
		return
	case e.Exit.Code != 0 || e.Exit.Signal != 0:
		e.Kind, e.Cause.ID = process.EventRunFailed, process.CauseRunFailed
	default:
		e.Kind, e.Cause.ID = process.EventRunEnded, process.CauseFinished
	}
	p.Runtime.Cause.ID = e.Cause.ID
}

// causeOfLastRun returns what became of the last run of a process that is over: an operation that has begun no run has
// dropped that from the runtime.
func (p *Process) causeOfLastRun() process.Cause {
	runs := p.History.Runs
	if p.Record.Spec.Kind() != process.SingleRun || len(runs) == 0 || runs[0].Ended == 0 {
		return p.Record.Rest
	}
	last := runs[0]
	c := process.Cause{ID: process.CauseUnseen, Since: last.Ended}
	switch e := last.Exit; {
	case e == nil || !e.Known:
		c.Text = "pid " + itoa(last.PID) + " ended, and drover did not see how"
	default:
		c.ID, c.Text = process.CauseFinished, "pid "+itoa(last.PID)+" "+e.String()+" at "+
			time.UnixMilli(last.Ended).UTC().Format(time.RFC3339)
		if e.Code != 0 || e.Signal != 0 {
			c.ID = process.CauseRunFailed
		}
	}
	return c
}

// RunDue notes that the run of the given time must begin.
func (p *Process) RunDue(at time.Time) { p.History.Due, p.History.Owed = at, true }

// RunSkipped tells of a due run that was left out. unmet says for which processes it was to wait, or why it
// could not start; empty if neither.
func (p *Process) RunSkipped(now time.Time, unmet string) process.Event {
	why := "the previous run had not ended"
	switch {
	case unmet != "":
		why = unmet
	case p.Machine.State == lifecycle.Operating:
		why = "an operation was under way"
	case p.Record.Spec.Timetable().Overlap == process.OverlapReplace:
		why = "the previous run could not be ended"
	}
	p.Blame(now, process.CauseRunSkipped, "the run of "+p.History.Due.Format(time.RFC3339)+" was skipped: "+why)
	p.History.Owed = false
	return p.event(process.EventRunSkipped, Policy(), p.Cause())
}

// RunsMissed tells of runs whose time passed while no agent was there; last is the time of the last one.
func (p *Process) RunsMissed(now, last time.Time, count int) process.Event {
	p.History.Due, p.History.Owed = last, false
	text := "missed the run of "
	if count > 1 {
		text = "missed " + process.Count(count, "run", "runs") + ", the last one of "
	}
	p.Blame(now, process.CauseRunMissed, text+last.Format(time.RFC3339)+": the agent or its host was away")
	e := p.event(process.EventRunMissed, Policy(), p.Cause())
	e.PID, e.Attempt = 0, count
	return e
}

// runOfOperation records the run that an operation began. If that run has already ended with success, it returns the
// event of the end. The event of the operation tells of all other ends.
func (p *Process) runOfOperation(c Change, op *Operation) []process.Event {
	began := p.Runtime.LastStartAt
	if !p.KeepsRuns() || began*1000+999 < op.Since {
		return nil
	}
	p.History.Owed = false
	if p.Runtime.Process != nil {
		p.noteRun(process.Run{Started: began * 1000, PID: p.PID()})
		return nil
	}
	e := c.event(process.EventRunEnded, process.Actor{}, process.Cause{})
	e.From, e.Exit = string(op.Prior), p.exitSince(op.Since)
	end := End{Began: began, Words: op.Output}
	if was := p.Runtime.Ended; was != nil {
		e.PID, end.Born = was.PID, was.StartedAfterBoot()
	}
	end.describe(&e, c)
	p.noteRun(process.Run{Started: began * 1000, PID: e.PID})
	p.closeRun(c.Now, &e, began)
	if p.judgeRun(&e); e.Kind != process.EventRunEnded || e.Exit == nil || !e.Exit.Known {
		return nil
	}
	e.Actor = ender(e.Exit)
	p.Runtime.Note = "the run of pid " + itoa(e.PID) + " ended with exit status 0"
	e.Cause.Text = p.Runtime.Note
	return []process.Event{e}
}
