package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// A stop or kill that has failed may still end the process a little later, for example a database that shuts down
// slowly. The operation caused that end, so drover does not relaunch the process.

// notePendingStop adds such a stop to the record, and removes it when another operation has decided.
func (r *runner) notePendingStop(e *record.Entry, s operation.Subject, result *operation.Result) {
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

func (r *runner) newPendingStop(e *record.Entry) *record.PendingStop {
	return &record.PendingStop{
		Op: e.Op, Item: e.Item, Actor: e.Actor, Boot: r.sup.cfg.Store.BootID(),
		Until: r.now() + r.proc.Record.Spec.CommandLimit(),
	}
}

// pendingStopByPeer records a stop under another name that has not ended the process in time.
func (r *runner) pendingStopByPeer(e *record.Entry) {
	if r.proc.Record == nil || !r.proc.Record.Hosted {
		return
	}
	rec := *r.proc.Record
	rec.PendingStop = r.newPendingStop(e)
	r.put(rec)
}

// takePendingStop unhosts the process if a failed stop or kill asked for its end, and returns that stop; else nil.
// away says that no agent saw the end.
func (r *runner) takePendingStop(away bool) *record.PendingStop {
	if r.proc.Record == nil || r.proc.Record.PendingStop == nil {
		return nil
	}
	asked := *r.proc.Record.PendingStop
	if !away && (asked.Boot != r.sup.cfg.Store.BootID() || r.now() > asked.Until) {
		return nil
	}
	rec := *r.proc.Record
	rec.Decide(false, process.WantStopped)
	rec.PendingStop = nil
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

// dropPendingStop removes a failed stop when its time is over and the process still runs.
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

// put stores a changed record. If the store fails, the record counts for this life of the agent.
func (r *runner) put(rec record.Record) {
	if n, err := r.sup.cfg.Revisions.NextRevision(); err == nil { // else PutRecord fails too
		rec.Revision = n
	}
	if err := r.sup.cfg.Store.PutRecord(rec); err != nil {
		r.sup.cfg.Log.Error("cannot store record", "process", r.id, "error", err)
	}
	r.proc.Record = &rec
}

// sweepAfter ends the leftovers of a run after a pending stop; asked is nil if there was no such stop.
func (r *runner) sweepAfter(ctx context.Context, asked *record.PendingStop) {
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
