package story

import (
	"cmp"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// Change is a change of the state of a process, or none where From and To are equal. Now is the wall clock, Uptime the
// time since boot.
type Change struct {
	From, To lifecycle.State
	Now      time.Time
	Uptime   time.Duration
}

func (c Change) event(kind process.EventKind, actor process.Actor, why process.Cause) process.Event {
	return process.Event{Kind: kind, From: string(c.From), To: string(c.To), Actor: actor, Cause: why}
}

// event returns an event without a change of state, of the instance that runs now.
func (p *Process) event(kind process.EventKind, actor process.Actor, why process.Cause) process.Event {
	e := Change{From: p.Machine.State, To: p.Machine.State}.event(kind, actor, why)
	e.PID = p.PID()
	return e
}

// End is the end of an instance without an operation.
type End struct {
	PID int
	// How is nil if nobody saw the end. Why explains it.
	How *process.Exit
	Why process.Cause
	// By is the caller of the operation that has sent the signal; nil if there is none.
	By *process.Actor
	// Run is the run in which the instance was started; empty if drover did not start it.
	Run string
	// Began is in Unix seconds, rounded down. Born is the time since boot; 0 if it is unknown.
	Began int64
	Born  time.Duration
	// Words are the last words of the instance. Log is the file that they come from; empty if they are its output.
	Words, Log string
	// Usage is what the instance used at the last look, and Health the last answer about it; nil if there was none.
	Usage  *process.Usage
	Health *process.Answer
	// Marks are those of the group of the run.
	Marks instance.Marks
}

// describe adds the run time and the last words to the event of the end.
func (was End) describe(e *process.Event, c Change) {
	switch {
	case was.Born > 0:
		e.RunTime = max(c.Uptime-was.Born, 0).Milliseconds()
	case was.Began > 0:
		e.RunTime = max(c.Now.UnixMilli()-was.Began*1000, 0)
	}
	e.Output = was.Words
}

func (was End) event(c Change, kind process.EventKind, actor process.Actor, why process.Cause) process.Event {
	e := c.event(kind, actor, why)
	e.PID, e.Exit = was.PID, was.How
	if was.How != nil {
		e.At = was.How.At
	}
	was.describe(&e, c)
	return e
}

// Ended tells of the end of an instance. asked is the failed stop or kill that this end belongs to, or nil.
func (p *Process) Ended(c Change, was End, asked *record.PendingStop) []process.Event {
	if asked != nil {
		e := was.event(c, asked.Op.Info().Event, Caller(asked.Actor, asked.Item), p.Record.Rest)
		p.closeRun(c.Now, &e, was.Began)
		if was.How == nil {
			e.RunTime = 0
		}
		return []process.Event{e}
	}
	actor := ender(was.How)
	if was.By != nil && actor.Kind == process.ActorOutside {
		actor = *was.By
	}
	e := was.event(c, process.EventExited, actor, was.Why)
	e.Revision = p.Runtime.Revision
	if c.To != lifecycle.Running && p.closeRun(c.Now, &e, was.Began) {
		p.judgeRun(&e)
	}
	if p.Record.Finished {
		e.Cause.ID = process.CauseFinished
	}
	if p.attest(c, &e, &was); was.How == nil { // nobody knows how long before this moment it ended
		e.RunTime = 0
	}
	return append([]process.Event{e}, p.GivenUp(c)...)
}

// Replaced tells that an instance has ended and that another one has its place.
func (p *Process) Replaced(c Change, was End) process.Event {
	actor := process.Actor{Kind: process.ActorOutside}
	if !p.Runtime.Outside {
		actor.Kind = process.ActorSelf
	}
	text := Join(was.Why.Text, "pid "+itoa(p.PID())+" has taken the place of pid "+itoa(was.PID))
	why := process.Cause{ID: cmp.Or(p.Runtime.Cause.ID, was.Why.ID), Text: text}
	e := was.event(c, process.EventReplaced, actor, why)
	e.PID, e.At = p.PID(), 0
	return e
}

// InstanceFound tells that an instance was found that drover did not start. It has the place of the instance before, or
// of none if before is nil.
func (p *Process) InstanceFound(c Change, before *instance.Identity) process.Event {
	if before != nil {
		why := process.Cause{Text: "drover did not see how pid " + itoa(before.PID) + " ended"}
		return p.Replaced(c, End{PID: before.PID, Why: why})
	}
	e := c.event(process.EventFound, process.Actor{Kind: process.ActorOutside}, p.Cause())
	if e.PID = p.PID(); p.Runtime.Run != "" {
		e.Actor.Kind = process.ActorSelf // of an earlier agent
	}
	return e
}

// Leftovers tells of processes that drover ended beside the main one; text names them.
func (p *Process) Leftovers(text string, actor process.Actor) process.Event {
	e := p.event(process.EventLeftovers, actor, process.Cause{Text: text})
	e.PID = 0
	return e
}

// Relaunched tells of a relaunch that succeeded, or that somebody else was quicker. why is the reason for it.
func (p *Process) Relaunched(c Change, attempt int, why process.Cause) []process.Event {
	e := c.event(process.EventRelaunched, Policy(), why)
	e.PID, e.Attempt = p.PID(), attempt
	switch {
	case p.Record != nil && p.Record.Spec.Kind() == process.Periodic:
		e.Kind = process.EventRunStarted
		e.Cause = process.Cause{Text: "its timetable has the run at " + p.History.Due.Format(time.RFC3339)}
		p.runBegun(c.Now)
	case p.Runtime.Outside:
		e.Kind, e.Actor, e.Cause = process.EventFound, process.Actor{Kind: process.ActorOutside}, p.Cause()
	}
	return append([]process.Event{e}, p.Flapping(c)...)
}

// StartedLate tells that a start has succeeded after its operation was over: it waited for other processes, or the
// process was hosted while it was down.
func (p *Process) StartedLate(c Change) []process.Event {
	e := c.event(process.EventStarted, Policy(), process.Cause{})
	if len(p.Record.Spec.After) > 0 {
		e.Cause.Text = "the processes that it is after are up"
	}
	e.PID, e.Revision = p.PID(), p.Record.Spec.Revision
	return []process.Event{e}
}

// RelaunchFailed tells of a relaunch that failed.
func (p *Process) RelaunchFailed(c Change, attempt int, why process.Cause) []process.Event {
	e := c.event(process.EventRelaunchFailed, Policy(), why)
	e.Attempt = attempt
	if p.Record != nil && p.Record.Spec.Kind() == process.Periodic {
		e.Kind = process.EventRunFailed
		p.runRefused(c.Now, why.Text)
	}
	return append(append([]process.Event{e}, p.GivenUp(c)...), p.Flapping(c)...)
}

// GivenUp tells that the relaunch budget is used up, if this change has used it up.
func (p *Process) GivenUp(c Change) []process.Event {
	if c.To != lifecycle.GivenUp {
		return nil
	}
	why := p.Cause()
	why.Text = p.givenUpText()
	e := c.event(process.EventGivenUp, Policy(), why)
	e.Attempt = p.Machine.Attempts
	return []process.Event{e}
}

// Flapping tells when the process begins to flap, and when a run has lasted. The operation that stops a process ends
// its flapping without another event.
func (p *Process) Flapping(c Change) []process.Event {
	now := p.IsFlapping(c.Uptime)
	if now == (p.Runtime.Flaps != 0) {
		return nil
	}
	if now {
		p.Runtime.Flaps = c.Now.UnixMilli()
		why := process.Cause{ID: process.CauseFlapping, Text: p.flappingText(c.Uptime, p.Runtime.Note)}
		e := p.event(process.EventFlapping, Policy(), why)
		e.PID = 0
		return []process.Event{e}
	}
	p.Runtime.Flaps = 0
	if p.Machine.State == lifecycle.Stopped {
		return nil
	}
	e := p.event(process.EventSteady, Policy(), process.Cause{})
	e.PID = 0
	return []process.Event{e}
}

// flappingText says how often the process was relaunched, as long as that is true.
func (p *Process) flappingText(uptime time.Duration, note string) string {
	if b := p.Bounds; p.Tally().Flapping(b, uptime) {
		return Join("relaunched more than "+process.Count(b.Flaps, "time", "times")+" in "+b.FlapWindow.String(), note)
	}
	return Join("relaunched too often, and no run has lasted since", note)
}

// Tally returns the recent relaunches and exceeded limits.
func (p *Process) Tally() lifecycle.Tally {
	return lifecycle.Tally{Relaunches: p.Runtime.Relaunches, Breaches: p.Runtime.Breaches}
}

// Refused tells that the policy of the host has prevented what drover would do by itself.
func (p *Process) Refused(now time.Time, note string) process.Event {
	p.Blame(now, process.CausePolicy, note)
	return p.event(process.EventFailed, Policy(), p.Cause())
}

// HealthChanged tells that the process became healthy or unhealthy.
func (p *Process) HealthChanged(a *process.Answer) process.Event {
	if !a.Bad {
		return p.event(process.EventHealthy, Policy(), process.Cause{})
	}
	return p.event(process.EventUnhealthy, Policy(), process.Cause{ID: process.CauseUnhealthy, Text: sickText(a)})
}

// Drifted tells that a configuration file has begun to differ from the spec.
func (p *Process) Drifted(d process.Drift) process.Event {
	why := process.Cause{ID: process.CauseDrift, Text: driftText(d), Since: d.Since}
	return p.event(process.EventDrifted, process.Actor{Kind: process.ActorOutside}, why)
}

// Restored tells that a configuration file matches the spec again.
func (p *Process) Restored(path string) process.Event {
	why := process.Cause{Text: path + " matches the spec again"}
	return p.event(process.EventRestored, process.Actor{Kind: process.ActorOutside}, why)
}

const reconciledText = "the agent's disk was an old copy, and the server had a later record"

// Reconciled tells that the record of the server has replaced an older one, which is nil if there was none.
func (p *Process) Reconciled(before *record.Record) process.Event {
	kind := process.EventRegistered
	switch was := before != nil && before.Hosted; {
	case p.Record.Hosted && !was:
		kind = process.EventHosted
	case was && !p.Record.Hosted:
		kind = process.EventUnhosted
	}
	return p.event(kind, Policy(), process.Cause{Text: reconciledText})
}

// BlameReconciled notes that the record of the server has taken the process out of hosting.
func (p *Process) BlameReconciled(now time.Time) {
	id := process.CauseUnhosted
	if p.Record.Want == process.WantStopped {
		id = process.CauseStopped
	}
	p.Blame(now, id, reconciledText)
}

// Forgotten tells that the server had removed the process.
func (p *Process) Forgotten() process.Event {
	return p.event(process.EventUnregistered, Policy(), process.Cause{Text: reconciledText})
}
