package operation

import (
	"context"
	"errors"
	"slices"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// relaunchKey is the journal key for the progress of a relaunch.
func relaunchKey(id process.ID) string { return "relaunch-" + process.Hash(id) }

// After describes a process after a relaunch, or after an end by policy.
type After struct {
	Runtime record.Runtime
	// Ended are the other processes that were ended besides the main one.
	Ended []liveness.Member
	// Note says in words what went wrong.
	Note string
}

// Relaunch runs the start command of a hosted process that has ended. It returns as soon as the process is alive, or
// with the reason if the process did not appear within its check time. It runs nothing if the process is already
// alive; the runtime then says that it came from outside. Relaunch journals its command like an operation, so that the
// next agent waits for that command and does not start a second one: see Relaunching and ResumeRelaunch. Call
// Relaunched in the end.
func (o *Operator) Relaunch(ctx context.Context, rec record.Record, rt record.Runtime) (After, error) {
	return o.relaunch(ctx, rec, rt, record.Progress{})
}

// ResumeRelaunch continues a relaunch that an earlier agent began.
func (o *Operator) ResumeRelaunch(ctx context.Context, rec record.Record, rt record.Runtime) (After, error) {
	progress, err := o.Journal.GetProgress(relaunchKey(rec.ID))
	if err != nil {
		o.Log.Warn("cannot read progress of relaunch", "process", rec.ID, "error", err)
	}
	return o.relaunch(ctx, rec, rt, progress)
}

func (o *Operator) relaunch(ctx context.Context, rec record.Record, rt record.Runtime,
	progress record.Progress,
) (After, error) {
	n := &session{
		Operator: o, ctx: ctx, id: rec.ID, op: process.Start, item: relaunchKey(rec.ID), spec: &rec.Spec,
		subject: Subject{Record: &rec, Runtime: rt}, runtime: rt, progress: progress,
	}
	err := n.relaunch() //nolint:contextcheck // the session carries it
	return After{Runtime: n.runtime, Ended: n.ended}, err
}

// Relaunched forgets the progress of a relaunch. Call it when the result is recorded elsewhere.
func (o *Operator) Relaunched(id process.ID) {
	if err := o.Journal.PutProgress(relaunchKey(id), record.Progress{}); err != nil {
		o.Log.Warn("cannot remove progress of relaunch", "process", id, "error", err)
	}
	o.active.drop(relaunchKey(id))
}

// Relaunching reports whether an earlier agent was in the middle of a relaunch of the process.
func (o *Operator) Relaunching(id process.ID) bool { return len(o.relaunchSteps(id)) > 0 }

func (o *Operator) relaunchSteps(id process.ID) []record.Step {
	progress, err := o.Journal.GetProgress(relaunchKey(id))
	if err != nil {
		return nil
	}
	return progress.Steps
}

// EndUnstored reports whether that agent could not store the end of the instance before the relaunch: the runtime on
// record still has that instance.
func (o *Operator) EndUnstored(id process.ID, rt *record.Runtime) bool {
	if rt.Process == nil ||
		slices.ContainsFunc(o.relaunchSteps(id), func(s record.Step) bool { return s.Run == rt.Run }) {
		return false
	}
	_, _, err := o.Processes.Instance(*rt.Process)
	return err != nil
}

func (n *session) relaunch() error {
	field, line := n.spec.Starter()
	if line == "" {
		return n.emptyCommand(field)
	}
	if err := n.Allow(n.id, process.Start, n.spec); err != nil && len(n.progress.Steps) == 0 {
		return err
	}
	if n.spec.Kind() == process.Periodic {
		return n.beginRun()
	}
	if err := n.beforeStart(); err != nil {
		return err
	}
	if n.step("start") == nil {
		n.mark(nil)
	}
	var seen instance.Sighting
	st, err := n.commandUnless("start", line, func() bool {
		// Somebody else may have started the process since drover saw that it was gone.
		if seen = n.findAndRecord(); seen.Alive() || seen.Unsure() {
			return true
		}
		n.clearTheWay()
		return false
	})
	switch {
	case errors.Is(err, errNeedless) && seen.Unsure():
		return unsure(seen)
	case errors.Is(err, errNeedless):
		return nil
	}
	if err != nil {
		return err
	}
	if !succeeded(st.Result) {
		return n.undo(st, field, nil)
	}
	if err := n.appear(st); err != nil {
		return n.abandon(st, err)
	}
	n.runtime.Unready = n.unready()
	return nil
}

// clearTheWay ends the leftovers of the instance that ended.
func (n *session) clearTheWay() {
	if left := n.endRemains(0); left != "" {
		n.Log.Warn("instance exited and left processes behind", "process", n.id, "left", left)
	}
}

// appear waits until drover finds the process, at most for its check time.
func (n *session) appear(st *record.Step) error {
	if n.isProcess(st) { // an end, however soon, is one of the process: its watch tells how it ended
		n.started(instance.Sighting{ID: n.runtime.Process, Matches: 1, Run: st.Run}, st.Run)
		return nil
	}
	field, _ := n.spec.Starter()
	until := st.DoneAt + n.spec.CheckTime()
	for pause := firstLook / 10; ; pause = min(2*pause, slowLook) {
		seen := n.findAndRecord()
		if seen.Alive() {
			n.started(seen, st.Run)
			return nil
		}
		left := n.timeLeft(until)
		if left <= 0 {
			return n.notUp(st, field, (&deathWatch{session: n}).explain("not alive", seen), seen)
		}
		if err := n.pause(min(pause, left)); err != nil {
			return err
		}
	}
}
