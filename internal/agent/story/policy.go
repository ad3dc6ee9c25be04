package story

import (
	"fmt"
	"strings"
	"time"

	"drover/internal/agent/record"
	"drover/internal/process"
)

// This file tells of ends by policy: of a process that exceeds a limit, is unhealthy, is due for its next run or
// runs on a host that shuts down.

// Exceeded notes that the process exceeded a limit and must end; final tells that drover does not relaunch it.
func (p *Process) Exceeded(now time.Time, b *process.Breach, final bool) {
	cause := process.CauseCPULimit
	switch {
	case b.Group != "":
		cause = process.CauseGroupLimit
	case b.Resource == "mem":
		cause = process.CauseMemLimit
	}
	p.Blame(now, cause, breachText(p.PID(), b))
	p.Runtime.Ending = &record.Ending{Cause: p.Cause(), Final: final}
}

// Breached tells of the limit that the process exceeded.
func (p *Process) Breached(c Change, pid int, b *process.Breach, why process.Cause) process.Event {
	kind := process.EventBreach
	if b.Group != "" {
		kind = process.EventGroupBreach
	}
	e := c.event(kind, Policy(), why)
	e.PID, e.Breach = pid, b
	return e
}

// Unrelaunchable tells that a process that its policy ends could not start again, and why.
func (p *Process) Unrelaunchable(pid int, why error) process.Event {
	e := p.event(process.EventFailed, Policy(), process.Cause{
		ID:   process.CausePreflight,
		Text: fmt.Sprintf("preflight failed: %v; pid %d is ended all the same, because it is not as it should be", why, pid),
	})
	e.PID = pid
	return e
}

func breachText(pid int, b *process.Breach) string {
	words := make([]string, len(b.Samples))
	for i, s := range b.Samples {
		words[i] = fmt.Sprintf("%.1f", s)
	}
	what := map[string]string{"cpu": "of the host's processors", "mem": "of the host's memory"}[b.Resource]
	if b.Group != "" {
		return fmt.Sprintf(
			"process group %q used %s %% %s, but may use %g %%: drover ended pid %d, which had the highest score",
			b.Group, strings.Join(words, ", "), what, b.Limit, pid)
	}
	return fmt.Sprintf("pid %d used %s %% %s, but may use %g %%: drover ended it", pid, strings.Join(words, ", "), what,
		b.Limit)
}

// Unhealthy notes that the process must end because it is unhealthy.
func (p *Process) Unhealthy(now time.Time, text string) {
	p.Blame(now, process.CauseUnhealthy, "pid "+itoa(p.PID())+" was ended because it is unhealthy: "+text)
	p.Runtime.Ending = &record.Ending{Cause: p.Cause()}
}

// TookTooLong notes that the run must end because it has reached its time limit.
func (p *Process) TookTooLong(now time.Time, limit time.Duration) {
	p.Blame(now, process.CauseTimeLimit,
		"the run as pid "+itoa(p.PID())+" was ended after "+limit.String()+", its time limit")
	p.Runtime.Ending = &record.Ending{Cause: p.Cause()}
}

// ShutsDown notes that the process must end because the host shuts down.
func (p *Process) ShutsDown(now time.Time) {
	p.Blame(now, process.CauseRebooted, "pid "+itoa(p.PID())+" was ended because the host shuts down")
	p.Runtime.Ending = &record.Ending{Cause: p.Cause()}
}

// DueAgain notes that the process must end because its next run is due, unless it ends for another reason.
func (p *Process) DueAgain(now time.Time) {
	if p.Runtime.Ending == nil {
		p.Runtime.Ending = &record.Ending{Cause: process.Cause{
			Text: "pid " + itoa(p.PID()) + " was ended so that its next run can begin", Since: now.UnixMilli(),
		}}
	}
}

// BlameEnding notes why the process was ended by policy; note is what the end showed.
func (p *Process) BlameEnding(why process.Cause, note string) process.Cause {
	why.Text = Join(why.Text, note)
	p.Runtime.Note, p.Runtime.Cause = why.Text, process.Cause{ID: why.ID, Since: why.Since, Evidence: why.Evidence}
	return why
}

// TakenDown tells that the process was ended by policy. since is when that began, in Unix milliseconds.
func (p *Process) TakenDown(c Change, was End, since int64) []process.Event {
	was.How = p.exitSince(since)
	e := was.event(c, process.EventTakenDown, Policy(), was.Why)
	e.At = 0
	p.closeRun(c.Now, &e, was.Began)
	if was.Why.ID == process.CauseUnhealthy { // the cause has the answer
		was.Health = nil
	}
	p.attest(c, &e, &was)
	return append([]process.Event{e}, p.GivenUp(c)...)
}

// NotTakenDown tells that the process could not be ended by policy. reason is why it was to be ended, note what stands
// in the way.
func (p *Process) NotTakenDown(c Change, reason process.Cause, note string) process.Event {
	p.Blame(c.Now, process.CauseStopFailed, Join("pid "+itoa(p.PID())+" could not be ended", note))
	p.Runtime.Cause.Evidence = append([]string{reason.Text}, reason.Evidence...)
	e := c.event(process.EventFailed, Policy(), p.Cause())
	e.PID = p.PID()
	return e
}
