package operation

import (
	"context"
	"errors"
	"syscall"

	"drover/internal/agent/instance"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// takeDownKey is the journal key for the progress of an end by policy.
func takeDownKey(id process.ID) string { return "takedown-" + process.Hash(id) }

// TakeDown ends a running process because its policy demands it. It runs the stop command, or sends SIGTERM if there
// is none, and waits for the stop time of the policy. Then it sends SIGKILL to the rest of the tree. It returns the
// state of the instance after that; Process is nil if the instance is gone. It blocks until that is known, or fails
// with ErrInterrupted when ctx ends first; the next agent continues with ResumeTakeDown.
func (o *Operator) TakeDown(ctx context.Context, rec record.Record, rt record.Runtime) (After, error) {
	return o.endByPolicy(ctx, rec, rt, record.Progress{})
}

// Relaunchable returns why a hosted process that is about to be ended for a relaunch could not start again, as far as
// that is known; nil if nothing is known. It does not run the preflight command.
func (o *Operator) Relaunchable(rec *record.Record) error {
	if o.Preflight == nil {
		return nil
	}
	n := &session{Operator: o, id: rec.ID, op: process.Start, spec: &rec.Spec}
	return o.Preflight(n.id, n.spec, n.starters(), false)
}

// ResumeTakeDown continues an end by policy of an earlier agent. A stop command that may have run does not run again.
// If the process has ended meanwhile, ResumeTakeDown ends the rest of its tree.
func (o *Operator) ResumeTakeDown(ctx context.Context, rec record.Record, rt record.Runtime) (After, error) {
	progress, err := o.Journal.GetProgress(takeDownKey(rec.ID))
	if err != nil {
		o.Log.Warn("cannot read progress of an end by policy", "process", rec.ID, "error", err)
	}
	return o.endByPolicy(ctx, rec, rt, progress)
}

func (o *Operator) endByPolicy(ctx context.Context, rec record.Record, rt record.Runtime,
	progress record.Progress,
) (After, error) {
	n := &session{
		Operator: o, ctx: ctx, id: rec.ID, op: process.Stop, item: takeDownKey(rec.ID), spec: &rec.Spec,
		subject: Subject{Record: &rec, Runtime: rt}, runtime: rt, progress: progress,
	}
	var note string
	if err := o.Allow(rec.ID, process.Stop, n.spec); err != nil && len(progress.Steps) == 0 {
		note = err.Error()
	} else if note, err = n.end(*rt.Process); errors.Is(err, ErrInterrupted) { //nolint:contextcheck // in the session
		return After{Runtime: n.runtime}, err
	}
	if err := o.Journal.PutProgress(n.item, record.Progress{}); err != nil {
		o.Log.Warn("cannot remove progress of an end by policy", "process", rec.ID, "error", err)
	}
	o.active.drop(n.item)
	return After{Runtime: n.runtime, Ended: n.ended, Note: note}, nil
}

// end ends the target and its tree. The error is ErrInterrupted or nil.
func (n *session) end(target instance.Identity) (note string, err error) {
	run := n.runOf(target)
	if alive, _ := n.Processes.Glance(target); alive {
		if err := n.proven(n.stopMethod(), target); err != nil {
			return err.Error(), nil
		}
		down, err := n.takeDown(n.stopMethod(), target)
		switch {
		case errors.Is(err, ErrInterrupted):
			return "", err
		case err != nil:
			note = err.Error()
		case down.err != nil:
			note = down.err.Error()
		default:
			note = down.note
		}
	}
	s := n.scopeOf(target, run)
	if n.mainOnly() {
		if problem := n.signal(target, syscall.SIGKILL); problem != "" {
			note = problem
		}
	} else if left, _ := n.endScope(s, 0); left != "" {
		note = left
	}
	n.findAndRecord()
	return note, nil
}
