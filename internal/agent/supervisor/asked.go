package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// A stop or kill that has failed may still end the process a little later: a database that takes its time. That end is
// the operation's, and drover does not undo it.

// noteAsked puts such a stop on the record, and takes it off when another operation has had its say.
func (r *runner) noteAsked(e *specstore.Entry, s operation.Subject, result *operation.Result) {
	switch rec := s.Record; {
	case result.Asked && s.Hosted():
		asked := *rec
		asked.Asked = r.askedBy(e)
		result.Change = specstore.Change{Put: &asked}
	case result.Change.Put != nil:
		result.Change.Put.Asked = nil
	case rec != nil && rec.Asked != nil && e.Op == process.Start && result.Outcome.Fault == process.AlreadyRunning:
		wanted := *rec
		wanted.Asked = nil
		result.Change = specstore.Change{Put: &wanted}
	}
}

func (r *runner) askedBy(e *specstore.Entry) *specstore.Asked {
	return &specstore.Asked{
		Op: e.Op, Item: e.Item, Actor: e.Actor, Boot: r.sup.cfg.Store.BootID(),
		Until: r.now() + time.Duration(r.record.Spec.Policy.OpTimeout)*time.Second,
	}
}

// askedByPeer notes a stop under another name that has not ended the process in time.
func (r *runner) askedByPeer(e *specstore.Entry) {
	if r.record == nil || !r.record.Hosted {
		return
	}
	rec := *r.record
	rec.Asked = r.askedBy(e)
	r.put(rec)
}

// obey takes the process out of hosting if its end is what a stop that had failed has asked for, and returns that stop,
// else nil. away says that no agent saw the end.
func (r *runner) obey(away bool) *specstore.Asked {
	if r.record == nil || r.record.Asked == nil {
		return nil
	}
	asked := *r.record.Asked
	if !away && (asked.Boot != r.sup.cfg.Store.BootID() || r.now() > asked.Until) {
		return nil
	}
	rec := *r.record
	rec.Hosted, rec.GivenUp, rec.Want, rec.Asked = false, false, process.WantStopped, nil
	rec.Rest = process.Cause{
		ID: process.CauseStopped, Since: time.Now().UnixMilli(),
		Text: by("stopped", asked.Actor) + ": it ended after the " + string(asked.Op) + " had been answered as failed",
	}
	r.put(rec)
	r.runtime.Note, r.runtime.Cause = "", process.Cause{}
	r.schedule()
	return &asked
}

// outliveAsked drops a stop that has failed once its time is over and the process lives on.
func (r *runner) outliveAsked() {
	if r.work.busy || r.record == nil || r.record.Asked == nil || r.runtime.Process == nil {
		return
	}
	if asked := r.record.Asked; asked.Boot == r.sup.cfg.Store.BootID() && r.now() <= asked.Until {
		return
	}
	rec := *r.record
	rec.Asked = nil
	r.put(rec)
	r.show()
}

// put stores a changed record. What cannot be stored holds for this life of the agent.
func (r *runner) put(rec specstore.Record) {
	if n, err := r.sup.cfg.Revisions.NextRevision(); err == nil { // else the record can't be stored either
		rec.Revision = n
	}
	if err := r.sup.cfg.Store.PutRecord(rec); err != nil {
		r.sup.cfg.Log.Error("cannot store record", "process", r.id, "error", err)
	}
	r.record = &rec
}

// sweepAfter ends what the run of a process has left behind that was to be stopped; asked is nil where nobody had asked
// for that.
func (r *runner) sweepAfter(ctx context.Context, asked *specstore.Asked) {
	if asked == nil {
		return
	}
	r.hold()
	spec, subject := r.record.Spec, operation.Subject{Record: r.record, Runtime: r.runtime}
	r.sup.turns.beside(func() {
		ended, problem := r.sup.cfg.Operator.EndRemains(ctx, r.id, &spec, subject)
		r.post(func(ctx context.Context, r *runner) {
			r.work.busy = false
			actor := asked.Actor
			actor.Kind, actor.Operation = process.ActorCaller, asked.Item
			r.tellLeftovers(ended, actor)
			if problem != "" {
				r.sup.cfg.Log.Error("cannot end the processes that a stopped process left behind", "process", r.id,
					"left", problem)
			}
		})
	})
}
