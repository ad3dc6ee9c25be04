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
// then, nothing if it is gone, and in words what did not go as it should. A successor of this agent does not go on with it: it
// finds the process alive, or gone, and decides anew. It blocks until that is known, or fails with ErrInterrupted when ctx
// ends first.
func (o *Operator) TakeDown(ctx context.Context, rec specstore.Record, rt specstore.Runtime) (after specstore.Runtime, note string, err error) {
	n := &session{
		Operator: o, ctx: ctx, id: rec.ID, op: process.Stop, item: takeDownKey(rec.ID), spec: &rec.Spec,
		subject: Subject{Record: &rec, Runtime: rt}, runtime: rt,
	}
	note, err = n.end(*rt.Process) //nolint:contextcheck // the session carries it
	if dropped := o.Journal.PutProgress(n.item, specstore.Progress{}); dropped != nil {
		o.Log.Warn("progress of an end by policy could not be dropped", "process", rec.ID, "error", dropped)
	}
	return n.runtime, note, err
}

// end ends the target and its tree.
func (n *session) end(target procfs.Identity) (note string, err error) {
	run := n.runOf(target)
	_, note, err = n.takeDown("stop", "stop_cmd", n.spec.Commands.Stop, target, n.terminate)
	if errors.Is(err, ErrInterrupted) {
		return "", err
	}
	if err != nil {
		note = err.Error()
	}
	if left := n.endTree(target, run); left != "" {
		note = left
	}
	n.look()
	return note, nil
}
