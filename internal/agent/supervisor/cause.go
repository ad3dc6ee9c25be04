package supervisor

import (
	"cmp"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/clip"

	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// blame notes why the process is as it is, in words for an operator.
func (r *runner) blame(id process.CauseID, text string) {
	r.runtime.Note = shortened(text)
	r.runtime.Cause = process.Cause{ID: id, Since: time.Now().UnixMilli()}
}

// maxNote is how long a note may be, in bytes: it is stored and told with every change, and what a command wrote may be
// in it.
const maxNote = 2 << 10

func shortened(text string) string { return clip.Marked(text, maxNote, " [...]") }

// cause is what was noted last, with its words.
func (r *runner) cause() process.Cause {
	c := r.runtime.Cause
	c.Text = r.runtime.Note
	return c
}

// blameAbsence notes why a process is not there at the first look in this life of the agent; before is the instance
// that was there in an earlier one, or nil. What that life knew of its end stands.
func (r *runner) blameAbsence(seen instance.Sighting, before *procfs.Identity) {
	note := r.runtime.Note
	if !strings.HasSuffix(note, seen.Note) { // an earlier life may have seen the same
		note = join(note, seen.Note)
	}
	resident := r.record.Spec.Policy.Kind == process.Resident
	switch {
	case before != nil:
		// Of this end alone: what was noted before is another one's.
		r.blameEnd(process.CauseUnseen, "pid "+itoa(before.PID)+" ended while the agent was not running")
		if seen.Note != "" {
			r.runtime.Cause.Evidence = append(r.runtime.Cause.Evidence, seen.Note)
		}
	case r.runtime.Cause.ID != "":
	case r.record.GivenUp || !r.record.Hosted:
		r.runtime.Note, r.runtime.Cause = r.record.Rest.Text, r.record.Rest
	case r.runtime.LastStartAt == 0 && (resident || r.openRun() != nil):
		r.blame(process.CauseRebooted, note)
	case resident:
		r.blame(seen.Cause, note)
	default:
		r.runtime.Note = note
	}
}

// restAfter is whose doing it is that a process does not run, or is not kept running, after an operation that has ended
// well; before is what was known of that.
func restAfter(e *specstore.Entry, before process.Cause) process.Cause {
	rest := e.Op.Info().Rest
	switch {
	case rest.Keep:
		return before
	case rest.ID == "":
		return process.Cause{}
	}
	return process.Cause{ID: rest.ID, Text: by(rest.Verb, e.Actor) + rest.Then, Since: time.Now().UnixMilli()}
}

// by says who did something, as far as that is known.
func by(what string, a process.Actor) string {
	switch {
	case a.User != "" && a.App != "":
		return what + " by " + a.User + " (app " + a.App + ")"
	case a.User != "":
		return what + " by " + a.User
	case a.App != "":
		return what + " by app " + a.App
	}
	return what
}

// causeOf names what a failed start suffers from.
func causeOf(err error) process.CauseID {
	return cmp.Or(process.CauseOf(err), process.CauseCommandFailed)
}

// actorOfExit names who ended a process that ended by itself.
func actorOfExit(e *process.Exit) process.Actor {
	switch {
	case e == nil || !e.Known:
		return process.Actor{}
	case e.OOM || e.Core:
		return process.Actor{Kind: process.ActorKernel}
	case e.Signal != 0:
		return process.Actor{Kind: process.ActorOutside}
	}
	return process.Actor{Kind: process.ActorSelf}
}

func oomNote(e *process.Exit) string {
	if e.OOM {
		return " by the kernel, out of memory,"
	}
	return ""
}
