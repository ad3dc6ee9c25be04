package operation

import (
	"context"
	"errors"

	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// takeDownKey is where the progress of an end by policy is kept, for the time that it takes.
func takeDownKey(id process.ID) string { return "takedown-" + id.Hash() }

// TakeDown ends a running process because its policy demands it: by its stop command, or SIGTERM where there is none, within the
// time that a stop may take, and then with SIGKILL whatever is left of its tree. It returns what is known of the instance
// then, nothing if it is gone, and in words what did not go as it should. It blocks until that is known, or fails with
// ErrInterrupted when ctx ends first; a successor of this agent goes on with ResumeTakeDown.
func (o *Operator) TakeDown(ctx context.Context, rec specstore.Record, rt specstore.Runtime) (after specstore.Runtime, note string, err error) {
	return o.endByPolicy(ctx, rec, rt, specstore.Progress{})
}

// ResumeTakeDown goes on with what an earlier agent was in the middle of: a stop command that may have run is not run again, and
// of a process that has gone meanwhile the rest of its tree is ended.
func (o *Operator) ResumeTakeDown(ctx context.Context, rec specstore.Record, rt specstore.Runtime) (after specstore.Runtime, note string, err error) {
	progress, err := o.Journal.GetProgress(takeDownKey(rec.ID))
	if err != nil {
		o.Log.Warn("progress of an end by policy could not be read", "process", rec.ID, "error", err)
	}
	return o.endByPolicy(ctx, rec, rt, progress)
}

func (o *Operator) endByPolicy(
	ctx context.Context, rec specstore.Record, rt specstore.Runtime, progress specstore.Progress,
) (after specstore.Runtime, note string, err error) {
	n := &session{
		Operator: o, ctx: ctx, id: rec.ID, op: process.Stop, item: takeDownKey(rec.ID), spec: &rec.Spec,
		subject: Subject{Record: &rec, Runtime: rt}, runtime: rt, progress: progress,
	}
	if refusal := o.Allow(rec.ID, process.Stop, n.spec); refusal != nil && len(progress.Steps) == 0 {
		note = refusal.Error()
	} else {
		note, err = n.end(*rt.Process) //nolint:contextcheck // the session carries it
	}
	if errors.Is(err, ErrInterrupted) {
		return n.runtime, "", err
	}
	if dropped := o.Journal.PutProgress(n.item, specstore.Progress{}); dropped != nil {
		o.Log.Warn("progress of an end by policy could not be dropped", "process", rec.ID, "error", dropped)
	}
	o.underway.drop(n.item)
	return n.runtime, note, err
}

// end ends the target and its tree.
func (n *session) end(target procfs.Identity) (note string, err error) {
	run := n.runOf(target)
	if alive, _ := n.Processes.Glance(target); alive {
		_, note, err = n.takeDown("stop", "stop_cmd", n.spec.Commands.Stop, target, n.terminate)
		if errors.Is(err, ErrInterrupted) {
			return "", err
		}
		if err != nil {
			note = err.Error()
		}
	}
	if left := n.endTree(target, run); left != "" {
		note = left
	}
	n.look()
	return note, nil
}
