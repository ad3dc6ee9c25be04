// Package story explains what happens to a process. It compares what the agent knew before a change with what it knows
// now. From that and the change itself, it makes the events, the cause that the process shows and the history of its
// runs. It has no clock, no goroutine and no I/O: its caller passes the time and the output, and stores or sends what
// comes back.
package story

import (
	"fmt"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/record"
	"drover/internal/clip"
	"drover/internal/process"
)

// Process is what the agent knows of one process. A copy may be read while the original changes.
type Process struct {
	// Record is nil for an unregistered process. It is replaced, never changed.
	Record  *record.Record
	Runtime record.Runtime
	// History has runs for periodic and single-run processes only. Its runs are replaced, never changed.
	History record.History
	// Machine has no state until the process was located for the first time.
	Machine lifecycle.Machine
	// Bounds tell when the process is flapping.
	Bounds lifecycle.Bounds
	// Rival is the pid of another drover of the host that manages the process; 0 if there is none. RivalSince is since
	// when this agent knows that, in Unix milliseconds.
	Rival      int
	RivalSince int64
	// Active is the operation under way.
	Active Active
	// Withheld says that the server withholds relaunches, and has no ID if it does not. It is not stored.
	Withheld process.Cause
}

// Active is an operation under way. Op is empty for an operation on behalf of another process. Since is in Unix
// milliseconds; 0 if there is none.
type Active struct {
	Op    process.Op
	Since int64
	// Waits says what the operation waits for before it begins.
	Waits string
}

// PID returns the pid of the instance, or 0 if there is none.
func (p *Process) PID() int {
	if p.Runtime.Process == nil {
		return 0
	}
	return p.Runtime.Process.PID
}

// Meets reports whether the process has the state that another one waits for. A process that is not registered counts
// as up, unless an operation is just registering it.
func (p *Process) Meets(want process.After) bool {
	switch {
	case p.Machine.Busy():
		return false
	case p.Record == nil:
		return true
	case want != process.AfterFinished:
		return p.Machine.State == lifecycle.Running && (want != process.AfterReady || !p.IsNotReady())
	case p.KeepsRuns():
		if runs := p.History.Runs; len(runs) > 0 && runs[0].Ended != 0 {
			success, _ := instance.Verdict(&p.Record.Spec, runs[0].Exit)
			return success
		}
		return false
	}
	return p.Machine.State == lifecycle.Finished
}

// KeepsRuns reports whether the process has a history of runs: it is periodic, or runs once.
func (p *Process) KeepsRuns() bool {
	return p.Record != nil && p.Record.Spec.Kind() != process.Resident
}

// Blame notes why the process is as it is, in words for an operator. The evidence so far is dropped.
func (p *Process) Blame(now time.Time, id process.CauseID, text string) {
	p.Runtime.Note = clip.Marked(text, maxNote, " [...]")
	p.Runtime.Cause = process.Cause{ID: id, Since: now.UnixMilli()}
}

// Clear drops the cause and its words.
func (p *Process) Clear() { p.Runtime.Note, p.Runtime.Cause = "", process.Cause{} }

// Cause returns the cause that was noted last, with its words.
func (p *Process) Cause() process.Cause {
	c := p.Runtime.Cause
	c.Text = p.Runtime.Note
	return c
}

// blameEnd is Blame for the end of an instance. Earlier OOM kills in its run are evidence.
func (p *Process) blameEnd(now time.Time, id process.CauseID, text string) {
	p.Blame(now, id, text)
	if short, ok := p.shortage(now); ok {
		p.Runtime.Cause.Evidence = append(p.Runtime.Cause.Evidence, short.Text)
	}
}

// BlameExit notes how the instance with that pid ended; words describe the end, and output is the last that it wrote.
func (p *Process) BlameExit(now time.Time, pid int, how *process.Exit, words, output string) {
	oom := ""
	if how.OOM {
		oom = " by the kernel, out of memory,"
	}
	at := time.UnixMilli(how.At).UTC().Format(time.RFC3339)
	cause := how.Cause()
	if p.Record != nil {
		cause = process.CauseOfEnd(&p.Record.Spec, how, output)
	}
	unrun := ""
	if p.Record != nil {
		unrun = process.Unrun(&p.Record.Spec, cause, how)
	}
	p.blameEnd(now, cause, Join("pid "+itoa(pid)+" "+words+oom+" at "+at, unrun))
}

// NoteLeftRunning adds to the end of a process which others of its run it has left running.
func (p *Process) NoteLeftRunning(others []instance.Identity) {
	if len(others) == 0 {
		return
	}
	text := "it has left pid " + itoa(others[0].PID)
	if more := len(others) - 1; more > 0 {
		text += " and " + itoa(more) + " more"
	}
	p.Runtime.Note = Join(p.Runtime.Note, text+" running")
}

// EndedByReload adds to the end of a process that its reload has brought it about.
func (p *Process) EndedByReload() { p.Runtime.Note = Join(p.Runtime.Note, "its reload ended it") }

// BlameUnseen notes an end that drover did not see.
func (p *Process) BlameUnseen(now time.Time, pid int) {
	p.blameEnd(now, process.CauseUnseen, "pid "+itoa(pid)+" ended, and drover did not see how")
}

// BlameOutside notes that somebody else started the instance; before are words about the time before.
func (p *Process) BlameOutside(now time.Time, before string) {
	p.Blame(now, process.CauseOutside, Join(before, "another program started pid "+itoa(p.PID())))
}

// BlameAbsence notes why the first look of this agent did not find the process. before is the instance of an earlier
// agent, or nil. What that agent noted about the end stays.
func (p *Process) BlameAbsence(now time.Time, seen instance.Sighting, before *instance.Identity) {
	note := p.Runtime.Note
	if !strings.HasSuffix(note, seen.Note) { // an earlier agent may have noted the same
		note = Join(note, seen.Note)
	}
	resident := p.Record.Spec.Kind() == process.Resident
	switch {
	case before != nil:
		// Only about this end: earlier notes are about another end.
		p.blameEnd(now, process.CauseUnseen, "pid "+itoa(before.PID)+" ended while the agent was not running")
		if seen.Note != "" {
			p.Runtime.Cause.Evidence = append(p.Runtime.Cause.Evidence, seen.Note)
		}
	case p.Runtime.Cause.ID != "":
	case p.Record.GivenUp || p.Record.Finished || !p.Record.Hosted:
		p.Runtime.Note, p.Runtime.Cause = p.Record.Rest.Text, p.Record.Rest
	case p.Runtime.LastStartAt == 0 && (resident || p.OpenRun() != nil):
		p.Blame(now, process.CauseRebooted, note)
	case resident:
		p.Blame(now, seen.Cause, note)
	default:
		p.Runtime.Note = note
	}
}

// attest adds facts about an end to its cause: the run time, the memory, the last answer about the health, and the last
// lines of the output or the log.
func (p *Process) attest(c Change, e *process.Event, was *End) {
	add := func(format string, args ...any) {
		p.Runtime.Cause.Evidence = append(p.Runtime.Cause.Evidence, fmt.Sprintf(format, args...))
	}
	before := func(at int64) time.Duration { // how long before the end something was
		end := c.Now.UnixMilli()
		if was.How != nil {
			end = was.How.At
		}
		return max(time.Duration(end-at)*time.Millisecond, 0).Round(time.Second)
	}
	if ran := time.Duration(e.RunTime) * time.Millisecond; ran > 0 {
		most := ""
		if was.How == nil {
			most = "at most "
		}
		add("it had run for %s%s", most, process.Round(ran))
	}
	if e.Exit != nil && e.Exit.Peak > 0 {
		add("its memory had grown to %.1f MiB at most", float64(e.Exit.Peak)/(1<<20))
	} else if was.Marks.Peak > 0 {
		add("the memory of its run had grown to %.1f MiB at most, with cached files", float64(was.Marks.Peak)/(1<<20))
	}
	for _, text := range []string{was.Marks.TasksLimit(&p.Record.Spec), e.Exit.Limit(&p.Record.Spec)} {
		if text != "" {
			add("%s", text)
		}
	}
	open := 0
	if use := was.Usage; use != nil && use.At >= was.Began*1000 {
		files := ""
		if use.Files > 0 {
			files = " and " + process.Count(use.Files, "open file", "open files")
		}
		add("%s before its end it used %.1f%% of the host's processors and %.1f%% of the host's memory, "+
			"with %s%s", before(use.At), use.CPU, use.Mem, process.Count(use.Processes, "process", "processes"), files)
		open = use.Files
	}
	if text := process.FilesLimit(&p.Record.Spec, open, e.Output); text != "" {
		add("%s", text)
	}
	if h := was.Health; h != nil && !h.OK && h.At >= was.Began*1000 {
		add("its last health check, %s before its end, failed: %s", before(h.At), h.Text)
	}
	if ran, stored := p.Runtime.Revision, p.Record.Spec.Revision; ran != 0 && ran != stored {
		add("it ran with %s", revisionsText(ran, stored))
	}
	if text := lastLines(e.Output); text != "" {
		from := "its last output"
		if was.Log != "" {
			from = "the end of its log " + was.Log
		}
		add("%s:\n%s", from, text)
	}
}

// exitSince returns the last end; nil if it was before the given moment in Unix milliseconds, because it then belongs
// to another instance.
func (p *Process) exitSince(moment int64) *process.Exit {
	if e := p.Runtime.LastExit; e != nil && e.At >= moment {
		return e
	}
	return nil
}

// RestAfter returns why the process does not run, or is not kept running, after an operation that succeeded. before is
// the reason so far.
func RestAfter(now time.Time, e *record.Entry, before process.Cause) process.Cause {
	rest := e.Op.Info().Rest
	switch {
	case rest.Keep:
		return before
	case rest.ID == "":
		return process.Cause{}
	}
	return process.Cause{ID: rest.ID, Text: By(rest.Verb, e.Actor) + rest.Then, Since: now.UnixMilli()}
}

// LaterExit returns the later one of two ends that were seen. If both are of the same instance, the watch knows more.
func LaterExit(watched, told *process.Exit) *process.Exit {
	if watched == nil || told != nil && told.At > watched.At {
		return told
	}
	return watched
}
