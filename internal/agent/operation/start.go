package operation

import (
	"slices"

	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// start runs start_cmd unless the process is alive, and hosts it once it has stayed up for its check time.
func (n *session) start() (Result, error) {
	if n.spec.Policy.Kind == process.Periodic {
		return n.startRun()
	}
	before, err := n.checked(n.mayStart)
	if err != nil {
		return Result{}, err
	}
	notes, err := n.bringUp("start", "start_cmd", n.spec.Commands.Start, before)
	if err != nil {
		return Result{}, err
	}
	return n.hosted(notes...)
}

// mayStart is the pre-check of a start.
func (n *session) mayStart(before Sighting) error {
	if before.Alive() {
		return alreadyRunning(n.name(), before.ID.PID)
	}
	if n.spec.Commands.Start == "" {
		return emptyCommand("start_cmd")
	}
	return n.mayHost("")
}

// bringUp runs the command that is to leave the process running, as the step of that name, and waits for its check time.
func (n *session) bringUp(step, field, line string, before *procfs.Identity) (notes []string, err error) {
	if n.step(step) == nil {
		n.markLog()
	}
	st, err := n.command(step, line)
	if err != nil {
		return nil, err
	}
	if !succeeded(st.Result) {
		return nil, n.undo(st, field, before)
	}
	n.runtime.Run = ""
	seen, why, err := n.upCheck(st, before)
	if err != nil {
		return nil, err
	}
	if why.failed() {
		switch note := unknownStatus(field, st.Result); {
		case note != "":
			why.text += "; " + note
		case n.spec.Policy.Kind == process.SingleRun && !why.told:
			why.text += "; " + field + " ended with " + st.Result.Text
		}
		return nil, postCheck(string(n.op), n.name(), withOutput(why.text, st.Result), why.cause)
	}
	n.started(seen, st.Run)
	return []string{unknownStatus(field, st.Result), n.missing(seen)}, nil
}

// undo ends what a failed start has started, unless the process was there before.
func (n *session) undo(st *specstore.Step, field string, before *procfs.Identity) error {
	var note string
	if before == nil && !st.Result.TimedOut {
		note = n.endTree(procfs.Identity{}, st.Run)
	}
	n.look()
	return commandFailed(field, st.Result, note)
}

// started notes the instance that a run of ours has brought up.
func (n *session) started(seen Sighting, run string) {
	n.sighted(seen)
	n.runtime.Run, n.runtime.Outside = run, false
	if i, err := n.Processes.Instance(*seen.ID); err == nil {
		n.runtime.LastStartAt = i.StartedAt
	}
}

// hosted is the result of an operation that leaves the process hosted with the spec that was sent.
func (n *session) hosted(notes ...string) (Result, error) {
	rec := n.record()
	rec.Spec, rec.Hosted, rec.GivenUp, rec.Want = *n.spec, true, false, process.WantRunning
	notes = slices.Concat(notes, policyNotes(n.spec.Policy), n.limitNotes())
	return Result{
		Outcome: process.Outcome{Text: successText(notes...), Hosted: true},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
		Restore: true,
	}, nil
}
