package operation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// start runs start_cmd unless the process is alive, and hosts it once it has stayed up for its check time.
func (n *session) start() (Result, error) {
	before, err := n.checked(n.mayStart)
	if err != nil {
		return Result{}, err
	}
	var notes []string
	if n.spec.Policy.Kind == process.Resident {
		notes, err = n.bringUp("start", "start_cmd", n.spec.Commands.Start, before)
	} else {
		notes, err = n.firstRun()
	}
	if err != nil {
		return Result{}, err
	}
	return n.hosted(notes...)
}

// mayStart is the pre-check of a start.
func (n *session) mayStart(before instance.Sighting) error {
	if before.Alive() {
		return alreadyRunning(n.name(), before.ID.PID)
	}
	if n.spec.Commands.Start == "" {
		return emptyCommand("start_cmd")
	}
	return n.mayHost("")
}

// bringUp runs the command that is to leave the process running, as the step of that name, and waits for its check
// time. What has outlived the last instance is ended first.
func (n *session) bringUp(step, field, line string, before *procfs.Identity) (notes []string, err error) {
	if n.step(step) == nil {
		if problem := n.endRemains(0); problem != "" {
			notes = append(notes, "of its last run "+problem)
		}
		n.markLog()
	}
	st, err := n.command(step, line)
	if err != nil {
		return nil, err
	}
	if !succeeded(st.Result) {
		return nil, n.undo(st, field, before)
	}
	n.checking()
	n.hurry = n.subject.Hurry
	seen, why, err := n.upCheck(st, before)
	n.hurry = nil
	if err != nil {
		return nil, n.abandon(st, err)
	}
	if why.failed() {
		return nil, n.notUp(st, field, why, seen)
	}
	n.started(seen, st.Run)
	return append(notes, unknownStatus(field, st.Result), n.missing(seen)), nil
}

// notUp ends what a start has started that has failed its check, unless it is there and only not ready, and says what
// went wrong.
func (n *session) notUp(st *specstore.Step, field string, why checkFailure, seen instance.Sighting) error {
	switch note := unknownStatus(field, st.Result); {
	case note != "":
		why.text += "; " + note
	case n.spec.Policy.Kind == process.SingleRun && !why.explained:
		why.text += "; " + field + " ended with " + st.Result.Text
	}
	// What a single run that has ended well has left behind is its own affair.
	if !seen.Alive() && n.spec.Policy.Kind != process.SingleRun {
		why.text = join(why.text, n.endStarted(st))
	}
	if words := n.lastWords(st); words != "" && !seen.Alive() {
		return postCheck(string(n.op), n.name(), fmt.Sprintf("%s; the end of its log: [%s]", why.text, words),
			why.cause).With(words)
	}
	return postCheckAfter(st.Result, string(n.op), n.name(), why.text, why.cause)
}

// maxWords is how much of the end of a log an answer holds, in bytes.
const maxWords = 1000

// lastWords is the end of the log that the spec names, where the command of a step and what it has started have written
// nothing else.
func (n *session) lastWords(st *specstore.Step) string {
	if n.spec.Identity.LogPath == "" || strings.TrimSpace(st.Result.Output) != "" {
		return ""
	}
	words := n.Commands.LastWords(n.spec, time.Now().Add(st.Child.StartedAfterBoot()-n.Clock()))
	return strings.ToValidUTF8(words[max(0, len(words)-maxWords):], "")
}

// endStarted ends what a command that has failed to bring the process up has started, so that it is in nobody's way,
// and says what that was. What was there before the operation stays.
func (n *session) endStarted(st *specstore.Step) (note string) {
	known := len(n.ended)
	problem, _ := n.endScope(instance.Scope{Root: st.Child, Run: st.Run, Spared: n.othersAnd(n.progress.Before)}, 0)
	n.look()
	return join(problem, endedText("drover ended the processes that it had started", n.ended[known:]))
}

// othersAnd is others, and spares an instance besides, which may be nil.
func (n *session) othersAnd(instance *procfs.Identity) func([]procfs.Identity) []procfs.Identity {
	return func(among []procfs.Identity) []procfs.Identity {
		spared := n.others(among)
		if instance != nil && slices.Contains(among, *instance) {
			spared = append(spared, *instance)
		}
		return spared
	}
}

// abandon leaves nothing running that nobody would know where a kill has ended the check of a start.
func (n *session) abandon(st *specstore.Step, err error) error {
	if known := process.CauseOf(err); known == process.CauseStopped && !n.look().Alive() {
		n.endStarted(st)
	}
	return err
}

// undo ends what a failed start has started. A restart that has failed late may have brought up a new instance: that
// one is left running and watched, so that no second one is launched beside it. It may not be seen for what it is
// before it has executed its program.
func (n *session) undo(st *specstore.Step, field string, before *procfs.Identity) error {
	seen := n.look()
	if before != nil && !st.Result.TimedOut {
		var err error
		if _, seen, err = n.successor(st.Run, n.Clock()+n.checkTime(), before); err != nil {
			return err
		}
	}
	note := ""
	switch {
	case before != nil && seen.Alive() && *seen.ID != *before:
		n.started(seen, st.Run)
		note = fmt.Sprintf("pid %d, which it has started, runs on", seen.ID.PID)
	case !st.Result.TimedOut:
		note = n.endStarted(st)
	}
	return commandFailed(field, st.Result, note)
}

// started notes the instance that a run of ours has brought up. Where it was born in another run of the process, that
// one goes on.
func (n *session) started(seen instance.Sighting, run string) {
	n.sighted(seen)
	if born := n.Trees.RunOf(*seen.ID); strings.HasPrefix(born, runPrefix(n.id)) {
		run = cmp.Or(born, run)
	}
	n.runtime.Run, n.runtime.Outside, n.runtime.User = run, false, n.spec.Identity.User
	if i, _, err := n.Processes.Instance(*seen.ID); err == nil {
		n.runtime.LastStartAt = i.StartedAt
	}
}

// hosted is the result of an operation that leaves the process hosted with the spec that was sent.
func (n *session) hosted(notes ...string) (Result, error) {
	rec := n.record()
	rec.Spec, rec.Hosted, rec.GivenUp, rec.Want = *n.spec, true, false, process.WantRunning
	notes = slices.Concat(notes, []string{EndedText(n.ended)}, policyNotes(n.spec.Policy), n.limitNotes(n.spec))
	return Result{
		Outcome: process.Outcome{Text: successText(notes...), Hosted: true},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
		Restore: true,
	}, nil
}
