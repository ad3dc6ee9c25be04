package operation

import (
	"context"
	"errors"
	"time"

	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// relaunchKey is where the progress of a relaunch is kept.
func relaunchKey(id process.ID) string { return "relaunch-" + id.Hash() }

// Relaunch runs the start command of a hosted process that has ended, and returns as soon as it is seen alive, or with why
// it was not within its check time. Nothing is run if it is alive already; the runtime then says that it came from outside.
// It journals its command like an operation, so that a successor of this agent waits for it instead of starting a second
// one: see Relaunching and ResumeRelaunch, and call Relaunched in the end.
func (o *Operator) Relaunch(ctx context.Context, rec specstore.Record, rt specstore.Runtime) (specstore.Runtime, error) {
	return o.relaunch(ctx, rec, rt, specstore.Progress{})
}

// ResumeRelaunch goes on with the relaunch that an earlier agent was in the middle of.
func (o *Operator) ResumeRelaunch(ctx context.Context, rec specstore.Record, rt specstore.Runtime) (specstore.Runtime, error) {
	progress, err := o.Journal.GetProgress(relaunchKey(rec.ID))
	if err != nil {
		o.Log.Warn("progress of relaunch could not be read", "process", rec.ID, "error", err)
	}
	return o.relaunch(ctx, rec, rt, progress)
}

func (o *Operator) relaunch(ctx context.Context, rec specstore.Record, rt specstore.Runtime, progress specstore.Progress) (specstore.Runtime, error) {
	n := &session{
		Operator: o, ctx: ctx, id: rec.ID, op: process.Start, item: relaunchKey(rec.ID), spec: &rec.Spec,
		subject: Subject{Record: &rec, Runtime: rt}, runtime: rt, progress: progress,
	}
	err := n.relaunch() //nolint:contextcheck // the session carries it
	return n.runtime, err
}

// Relaunched forgets the progress of a relaunch, once what came of it is noted elsewhere.
func (o *Operator) Relaunched(id process.ID) {
	if err := o.Journal.PutProgress(relaunchKey(id), specstore.Progress{}); err != nil {
		o.Log.Warn("progress of relaunch could not be dropped", "process", id, "error", err)
	}
	o.underway.drop(relaunchKey(id))
}

// Relaunching reports whether an earlier agent was in the middle of a relaunch of the process.
func (o *Operator) Relaunching(id process.ID) bool {
	progress, err := o.Journal.GetProgress(relaunchKey(id))
	return err == nil && len(progress.Steps) > 0
}

func (n *session) relaunch() error {
	if n.spec.Commands.Start == "" {
		return emptyCommand("start_cmd")
	}
	if err := n.Allow(n.id, process.Start, n.spec); err != nil && len(n.progress.Steps) == 0 {
		return err
	}
	if n.spec.Policy.Kind == process.Periodic {
		return n.beginRun()
	}
	var seen Sighting
	st, err := n.commandUnless("start", n.spec.Commands.Start, func() bool {
		// Time has passed since it was seen to be gone: somebody else may have started it.
		if seen = n.look(); seen.Alive() || seen.Unsure() {
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
		note := ""
		if !st.Result.TimedOut {
			note = n.endTree(procfs.Identity{}, st.Run)
		}
		return commandFailed("start_cmd", st.Result, note)
	}
	return n.appear(st)
}

// clearTheWay ends what is left of the instance that ended: workers that outlived a killed master hold its port.
func (n *session) clearTheWay() {
	ended := n.runtime.Ended
	if ended == nil {
		return
	}
	if left := n.endTree(*ended, n.runtime.Run); left != "" {
		n.Log.Warn("instance that ended has left processes behind", "process", n.id, "pid", ended.PID, "left", left)
	}
}

// appear waits for the process to be seen, at most for its check time.
func (n *session) appear(st *specstore.Step) error {
	policy := n.spec.Policy
	until := st.DoneAt + time.Duration(max(policy.StartCheckBegin, policy.StartCheckEnd))*time.Second
	for pause := firstLook / 10; ; pause = min(2*pause, slowLook) {
		seen := n.look()
		if seen.Alive() {
			n.started(seen, st.Run)
			return nil
		}
		left := until - n.Clock()
		if left <= 0 {
			why := (&deathWatch{session: n}).explain("not alive", seen)
			return postCheck("start", n.name(), withOutput(why.text, st.Result), why.cause)
		}
		if err := n.pause(min(pause, left)); err != nil {
			return err
		}
	}
}
