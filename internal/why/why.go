// Package why explains in one sentence why a process is in its state. It owns the judgement that combines the agent's
// report with the server's own knowledge (whether the agent is online, which operations wait). It also owns the
// catalogue of all causes: their severity, meaning and remedy. It gathers no facts, prints nothing, and never changes
// the text of a cause that an agent has found.
package why

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"drover/internal/process"
)

// Patience is how long an operation may wait for its turn before the wait itself counts as wrong.
const Patience = 30 * time.Second

// Facts is what the server knows about one process on one host at one moment.
type Facts struct {
	Process process.ID
	// Host is the name of the host.
	Host string
	Now  time.Time
	// Agent is what the server knows about the agent of the host.
	Agent Agent
	// Status is the agent's last report of the process; nil if there is none.
	Status *process.Status
	// Operations are the open operations, the oldest first. Queries are not among them.
	Operations []Operation
	// Brief asks for a finding whose texts nobody reads: they may lack.
	Brief bool
}

// Agent describes an agent as the server sees it.
type Agent struct {
	// Joined means that an agent joined under the name of the host; Away means that it does not respond.
	Joined, Away bool
	// Since is the moment from which an absence counts, and Seen the time of the agent's last message. Zero means
	// unknown.
	Since, Seen time.Time
}

// Operation is an open operation on the process.
type Operation struct {
	Op   process.Op
	Task string
	// App and User are its caller; Asked is the time of the call.
	App, User string
	Asked     time.Time
	// Begun means that the agent executes it; Accepted means that the agent has it on disk.
	Begun, Accepted bool
}

// Severity tells how bad a finding is.
type Severity string

// The severities. Critical: the process is down or keeps ending although it should run, or drover cannot see it.
// Warning: it runs, and something is wrong. Notice: the state is intended, or passes by itself.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Notice   Severity = "notice"
)

// Severities lists them, the worst first.
func Severities() []Severity { return []Severity{Critical, Warning, Notice} }

// Compare orders severities, the worst first.
func (s Severity) Compare(other Severity) int {
	return cmp.Compare(slices.Index(Severities(), s), slices.Index(Severities(), other))
}

// Finding explains why a process is in its state.
type Finding struct {
	// Cause is the most important cause; the zero value means that there is nothing to explain.
	Cause process.Cause
	// Further are the other causes that the agent found, the worst first.
	Further []process.Cause
	// Wrong means that the process is not as it should be.
	Wrong    bool
	Severity Severity
	// Impact is one clause that says what the state means for the process.
	Impact string
	// Then is the cause of the agent's last report, if the present cause is that the agent is away.
	Then *process.Cause
}

// HasAny reports whether one of the causes, the main or a further one, is in a list.
func (f *Finding) HasAny(ids []process.CauseID) bool {
	return slices.Contains(ids, f.Cause.ID) ||
		slices.ContainsFunc(f.Further, func(c process.Cause) bool { return slices.Contains(ids, c.ID) })
}

// Problems returns the causes of a finding that is wrong, each once and the main one first, without further causes that
// are only notices.
func (c Catalogue) Problems(f *Finding) []process.Cause {
	if !f.Wrong {
		return nil
	}
	all := []process.Cause{f.Cause}
	for _, further := range f.Further {
		e, known := c.Lookup(further.ID)
		repeated := slices.ContainsFunc(all, func(c process.Cause) bool { return c.ID == further.ID })
		if further.ID != "" && !repeated && (!known || e.Severity != Notice) {
			all = append(all, further)
		}
	}
	return all
}

// judgement joins the facts about a process with the catalogue of causes.
type judgement struct {
	Facts
	Catalogue
}

// Judge finds the most important cause. Causes that only the server can know come before the report of the agent,
// because that report is out of date if the agent is away. Judge is a pure function.
func (c Catalogue) Judge(facts Facts) Finding {
	f := judgement{facts, c}
	switch {
	case !f.Agent.Joined:
		return f.conclude(f.unknownAgent())
	case f.Agent.Away:
		return f.away()
	case f.Status == nil || !f.Status.Known:
		if len(f.Operations) > 0 {
			return f.conclude(f.waiting(nil))
		}
		return f.conclude(process.Cause{
			ID: process.CauseUnknown, Text: fmt.Sprintf("the agent on %s does not know process %s", f.Host, f.Process),
		})
	}
	own := f.own()
	if len(f.Operations) == 0 {
		return f.conclude(own)
	}
	if f.Operations[0].Begun {
		if own.ID == "" || own.ID == process.CauseOperating || !f.wrong(own) {
			return f.conclude(f.underWay(own))
		}
		return f.conclude(own)
	}
	if late := f.Now.Sub(f.Operations[0].Asked) > Patience; late || !f.wrong(own) {
		return f.conclude(f.waiting(&own))
	}
	own.Evidence = append(slices.Clone(own.Evidence), f.Operations[0].String()+" is about to begin")
	return f.conclude(own)
}

// conclude makes a finding from a cause.
func (f *judgement) conclude(c process.Cause) Finding {
	v := Finding{Cause: c, Wrong: f.wrong(c), Severity: Notice, Impact: f.impact()}
	if v.Wrong {
		v.Severity = f.severity(c.ID)
	}
	if f.Agent.Joined && !f.Agent.Away && f.Status != nil {
		v.Further = f.Status.Further
	}
	return v
}

// severity returns the severity of a cause that is wrong: the severity of the catalogue, adjusted to the state. What is
// down is never milder than what runs.
func (f *judgement) severity(id process.CauseID) Severity {
	e, known := f.Lookup(id)
	seen := f.Agent.Joined && !f.Agent.Away && f.Status != nil
	switch {
	case seen && (f.down() || id == process.CauseFlapping || f.Status.State == process.StateFlapping):
		return Critical
	case !known || e.Severity == Notice || seen && f.Status.Running():
		return Warning
	}
	return e.Severity
}

// down reports whether the process does not run, and is not between two runs or done.
func (f *judgement) down() bool {
	s := f.Status
	return s.Known && !s.Running() && s.State != process.StateScheduled && s.State != process.StateFinished
}

// wrong reports whether a process with this cause is not as it should be.
func (f *judgement) wrong(c process.Cause) bool {
	e, known := f.Lookup(c.ID)
	expected := f.Status == nil || f.Status.Hosted || f.Status.Want == process.WantRunning
	switch {
	case c.ID == "":
		return false
	case c.ID == process.CauseFinished:
		// An agent names this cause after a success only, which may be another exit status than 0.
		return f.Status != nil && f.Status.Cause.ID == "" && f.Status.LastExit != nil && failedExit(f.Status.LastExit)
	case known && e.Severity == Notice:
		return false
	case c.ID == process.CauseQueued:
		return len(f.Operations) > 0 && f.Now.Sub(f.Operations[0].Asked) > Patience
	case c.ID == process.CauseAgentAway:
		return expected || len(f.Operations) > 0
	case f.ends[c.ID]:
		return expected || f.Status.Running() // a process that nobody expects to run may end
	}
	return true
}

func failedExit(e *process.Exit) bool { return e.Known && (e.Code != 0 || e.Signal != 0) }

func (f *judgement) unknownAgent() process.Cause {
	c := process.Cause{ID: process.CauseAgentUnknown, Text: fmt.Sprintf("no agent has ever joined as %s", f.Host)}
	if f.Status != nil {
		c.Text = fmt.Sprintf("the agent that reported it is no longer known as %s", f.Host)
		c.Evidence = append(c.Evidence, "last reported state: "+f.Status.State)
	}
	return c
}

// away makes a finding for a process whose agent is away.
func (f *judgement) away() Finding {
	c := process.Cause{ID: process.CauseAgentAway, Since: millis(f.Agent.Since)}
	if f.Brief {
		return f.conclude(c)
	}
	switch {
	case f.Agent.Seen.IsZero():
		c.Text = "the agent of the host has sent nothing since the server started"
	default:
		c.Text = fmt.Sprintf("the agent of the host has been away for %s", Age(f.Now.Sub(f.Agent.Since)))
		c.Evidence = append(c.Evidence, "last heard at "+stamp(f.Agent.Seen))
	}
	var then *process.Cause
	if s := f.Status; s != nil {
		c.Text += "; " + asOf(s)
		if own := f.own(); own.ID != "" {
			then = &own
			c.Evidence = append(c.Evidence, fmt.Sprintf("last reported cause: %s [%s]", own.Text, own.ID))
		}
	}
	for _, o := range f.Operations {
		c.Evidence = append(c.Evidence, o.String()+" waits for the agent")
	}
	v := f.conclude(c)
	v.Then = then
	return v
}

// asOf describes the last known state.
func asOf(s *process.Status) string {
	if s.ReportedAt > 0 {
		return fmt.Sprintf("as of %s the process was %s", stamp(time.Unix(s.ReportedAt, 0)), s.State)
	}
	return "in its last report the process was " + s.State
}

// underWay returns the cause while the agent executes an operation.
func (f *judgement) underWay(own process.Cause) process.Cause {
	o := f.Operations[0]
	c := process.Cause{ID: process.CauseOperating, Since: own.Since}
	if own.ID == process.CauseOperating {
		c.Evidence = slices.Clone(own.Evidence)
	}
	if c.Since == 0 {
		c.Since = millis(o.Asked)
	}
	c.Text = o.String() + " under way since " + stamp(time.UnixMilli(c.Since))
	for _, next := range f.Operations[1:] {
		c.Evidence = append(c.Evidence, next.String()+" waits for its turn")
	}
	return c
}

// waiting returns the cause while an operation has not begun.
func (f *judgement) waiting(own *process.Cause) process.Cause {
	if f.Operations[0].Begun {
		return f.underWay(process.Cause{})
	}
	o := f.Operations[0]
	c := process.Cause{ID: process.CauseQueued, Since: millis(o.Asked)}
	c.Text = o.String() + " has just been requested"
	if age := f.Now.Sub(o.Asked); age >= time.Second {
		c.Text = fmt.Sprintf("%s has been waiting for %s", o, Age(age))
	}
	if o.Accepted {
		c.Evidence = append(c.Evidence, "the agent has accepted the operation and has not begun it")
	} else {
		c.Evidence = append(c.Evidence, "the agent has not accepted the operation")
	}
	if own != nil && own.ID != "" {
		c.Evidence = append(c.Evidence, fmt.Sprintf("until then: %s [%s]", own.Text, own.ID))
	}
	for _, next := range f.Operations[1:] {
		c.Evidence = append(c.Evidence, next.String()+" is queued behind it")
	}
	return c
}

// String names an operation, its caller and its task.
func (o Operation) String() string {
	by := o.User
	if by == "" {
		by = o.App
	}
	if by != "" {
		by = " by " + by
	}
	return fmt.Sprintf("%s%s (%s)", o.Op, by, o.Task)
}
