package story

import (
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// NotReadyState is the word that a status shows for a process that runs and is not ready.
const NotReadyState = "not-ready"

// IsNotReady reports whether the process runs and is not ready, or says that it stops.
func (p *Process) IsNotReady() bool {
	return p.Machine.State == lifecycle.Running && (p.Runtime.Unready != nil || p.Runtime.SelfReport.Stopping != 0)
}

// unreadiness is why a process is not ready.
func (p *Process) unreadiness() process.Cause {
	u, pid := p.Runtime.Unready, "pid "+itoa(p.PID())
	if u == nil {
		return process.Cause{
			ID: process.CauseNotReady, Text: pid + " says that it stops", Since: p.Runtime.SelfReport.Stopping,
		}
	}
	text := pid + " is not ready yet"
	if u.Late {
		text = pid + " was not ready in time"
	}
	switch alive, apart := p.Record.Spec.Alive(); {
	case u.Problem != "":
		text += ": " + u.Problem
	case apart:
		text += ": it must stay alive for " + alive.String()
	}
	return process.Cause{ID: process.CauseNotReady, Text: Join(text, p.says()), Since: u.Since}
}

// says is the text of the process itself; empty if it has said nothing.
func (p *Process) says() string {
	if p.Runtime.SelfReport.Status == "" {
		return ""
	}
	return "it says: " + p.Runtime.SelfReport.Status
}

// NotReady tells that the process was not ready in time.
func (p *Process) NotReady() process.Event {
	return p.event(process.EventNotReady, Policy(), p.unreadiness())
}

// Readied tells that a process has become ready that runs already; note is a remark about the test.
func (p *Process) Readied(note string) process.Event {
	return p.event(process.EventReady, process.Actor{Kind: process.ActorSelf}, process.Cause{Text: note})
}

// EndForUnreadiness notes that the process must end because it was not ready in time.
func (p *Process) EndForUnreadiness(now time.Time) {
	why := p.unreadiness()
	p.Blame(now, process.CauseNotReady, Join(why.Text, "drover ended it, as ready.on_timeout says"))
	p.Runtime.Ending = &record.Ending{Cause: p.Cause()}
}

// MainProcessNamed tells that the process has named another main process; before is the pid of the former one.
func (p *Process) MainProcessNamed(c Change, before int) process.Event {
	e := c.event(process.EventReplaced, process.Actor{Kind: process.ActorSelf}, process.Cause{
		Text: "pid " + itoa(before) + " has named pid " + itoa(p.PID()) + " as the main process",
	})
	e.PID = p.PID()
	return e
}
