package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// A stop or kill that has failed may still end the process a little later: a database that takes its time. That end is
// the operation's, and drover does not undo it.

// notePendingStop puts such a stop on the record, and takes it off when another operation has had its say.
func (r *runner) notePendingStop(e *specstore.Entry, s operation.Subject, result *operation.Result) {
	switch rec := s.Record; {
	case result.StopPending && s.Hosted():
		asked := *rec
		asked.PendingStop = r.newPendingStop(e)
		result.Change = specstore.Change{Put: &asked}
	case result.Change.Put != nil:
		result.Change.Put.PendingStop = nil
	case rec != nil && rec.PendingStop != nil && e.Op == process.Start &&
		result.Outcome.Fault == process.AlreadyRunning:
		wanted := *rec
		wanted.PendingStop = nil
		result.Change = specstore.Change{Put: &wanted}
	}
}

func (r *runner) newPendingStop(e *specstore.Entry) *specstore.PendingStop {
	return &specstore.PendingStop{
		Op: e.Op, Item: e.Item, Actor: e.Actor, Boot: r.sup.cfg.Store.BootID(),
		Until: r.now() + time.Duration(r.proc.Record.Spec.Policy.OpTimeout)*time.Second,
	}
}

// pendingStopByPeer notes a stop under another name that has not ended the process in time.
func (r *runner) pendingStopByPeer(e *specstore.Entry) {
	if r.proc.Record == nil || !r.proc.Record.Hosted {
		return
	}
	rec := *r.proc.Record
	rec.PendingStop = r.newPendingStop(e)
	r.put(rec)
}

// takePendingStop takes the process out of hosting if its end is what a stop that had failed has asked for, and returns
// that stop, else nil. away says that no agent saw the end.
func (r *runner) takePendingStop(away bool) *specstore.PendingStop {
	if r.proc.Record == nil || r.proc.Record.PendingStop == nil {
		return nil
	}
	asked := *r.proc.Record.PendingStop
	if !away && (asked.Boot != r.sup.cfg.Store.BootID() || r.now() > asked.Until) {
		return nil
	}
	rec := *r.proc.Record
	rec.Hosted, rec.GivenUp, rec.Want, rec.PendingStop = false, false, process.WantStopped, nil
	rec.Rest = process.Cause{
		ID: process.CauseStopped, Since: time.Now().UnixMilli(),
		Text: story.By("stopped", asked.Actor) + ": it ended after the " + string(asked.Op) +
			" had been answered as failed",
	}
	r.put(rec)
	r.proc.Clear()
	r.schedule()
	return &asked
}

// dropPendingStop drops a stop that has failed once its time is over and the process lives on.
func (r *runner) dropPendingStop() {
	if r.proc.Machine.Busy() || r.proc.Record == nil || r.proc.Record.PendingStop == nil || r.proc.PID() == 0 {
		return
	}
	if asked := r.proc.Record.PendingStop; asked.Boot == r.sup.cfg.Store.BootID() && r.now() <= asked.Until {
		return
	}
	rec := *r.proc.Record
	rec.PendingStop = nil
	r.put(rec)
	r.publish()
}

// put stores a changed record. What cannot be stored holds for this life of the agent.
func (r *runner) put(rec specstore.Record) {
	if n, err := r.sup.cfg.Revisions.NextRevision(); err == nil { // else the record can't be stored either
		rec.Revision = n
	}
	if err := r.sup.cfg.Store.PutRecord(rec); err != nil {
		r.sup.cfg.Log.Error("cannot store record", "process", r.id, "error", err)
	}
	r.proc.Record = &rec
}

// sweepAfter ends what the run of a process has left behind that was to be stopped; asked is nil where nobody had asked
// for that.
func (r *runner) sweepAfter(ctx context.Context, asked *specstore.PendingStop) {
	if asked == nil {
		return
	}
	r.hold()
	r.step(ctx, lifecycle.Sweeping{})
	spec, subject := r.proc.Record.Spec, operation.Subject{Record: r.proc.Record, Runtime: r.proc.Runtime}
	r.sup.goroutines.spawn(func() {
		ended, problem := r.sup.operator.EndRemains(ctx, r.id, &spec, subject)
		r.post(func(ctx context.Context, r *runner) {
			r.step(ctx, lifecycle.Swept{})
			r.tellLeftovers(ended, story.Caller(asked.Actor, asked.Item))
			if problem != "" {
				r.sup.cfg.Log.Error("cannot end the processes that a stopped process left behind", "process", r.id,
					"left", problem)
			}
		})
	})
}
