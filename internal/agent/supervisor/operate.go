package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// start begins a task.
func (r *runner) start(ctx context.Context, t task) {
	if t.entry.Op == process.Query {
		r.query(ctx, t)
		return
	}
	r.hold()
	r.work.prior, r.work.entry = r.machine.State, &t.entry
	r.leaveBudget()
	r.sup.cfg.Probes.Drop(r.id)
	r.step(ctx, lifecycle.Began{})
	if t.hold != nil {
		r.work.entry = nil
		close(t.hold.held)
		r.sup.goroutines.spawn(func() {
			select {
			case fate := <-t.hold.released:
				r.post(func(ctx context.Context, r *runner) { r.released(ctx, fate, t.hold.by) })
			case <-ctx.Done():
			}
		})
		return
	}
	doing, cancel := context.WithCancelCause(ctx)
	hurry := make(chan struct{})
	r.work.cancel, r.work.endCheck = cancel, hurry
	began := r.work.since
	subject := operation.Subject{
		Record: r.record, Runtime: r.runtime, Overtook: t.overtook, Hurry: hurry,
		Checking: func() {
			r.post(func(_ context.Context, r *runner) { r.work.checking = r.work.busy && r.work.since == began })
		},
	}
	r.sup.goroutines.spawn(func() {
		defer cancel(nil)
		r.operate(ctx, withHolder(doing, &t.entry), t, subject)
	})
}

// query answers a question, which changes nothing: the process stays watched as it is, with what a look has just shown.
// Where that look is all that the answer takes, it is given at once, and beside the runner where something may have to
// be waited for.
func (r *runner) query(ctx context.Context, t task) {
	var seen *process.Instance
	if r.machine.State != lifecycle.Unknown {
		seen = r.refresh(ctx)
		r.review(ctx)
	}
	subject := operation.Subject{Record: r.record, Runtime: r.runtime, Seen: seen}
	over := r.comparing
	if seen != nil && over == nil && !r.record.Spec.Commands.Asks() {
		r.operate(ctx, ctx, t, subject)
		return
	}
	r.sup.goroutines.spawn(func() {
		afterComparison(ctx, over)
		r.operate(ctx, ctx, t, subject)
	})
}

// hold notes that something holds the process from now on.
func (r *runner) hold() {
	r.work = work{busy: true, since: time.Now().UnixMilli(), prior: r.work.prior}
	r.watchState.unconfirmed = false
}

// storeAgain is how long an outcome that could not be stored waits for its next try: the disk is full or gone.
const storeAgain = time.Second

// operate carries out one operation, and stores its outcome before anybody hears of it. doing ends before ctx where a
// kill ends the operation.
func (r *runner) operate(ctx, doing context.Context, t task, subject operation.Subject) {
	e := t.entry
	result, err := r.outcome(doing, t, subject)
	if err != nil {
		return // the agent stops, and its successor goes on
	}
	r.notePendingStop(&e, subject, &result)
	if rec := result.Change.Put; rec != nil {
		if rec.RegisteredAt == 0 {
			rec.RegisteredAt = time.Now().Unix()
		}
		if !result.StopPending {
			rec.Rest = restAfter(&e, rec.Rest)
		}
		result.Runtime = withoutAnswers(result.Runtime, subject.Record, rec)
	}
	if e.Op != process.Query && !result.Change.Delete && (result.Change.Put != nil || subject.Record != nil) {
		// Before the outcome, which drops the progress: a successor must find the instance and its run in one or the
		// other.
		r.storeRuntime(result.Runtime)
	}
	for e.Op != process.Query { // of a question nothing is kept
		err := r.sup.cfg.Store.Finish(e.Item, r.id, result.Outcome, result.Change)
		if err == nil {
			break
		}
		r.sup.cfg.Log.Error("cannot store outcome, retrying", "process", r.id, "item", e.Item, "error", err)
		select {
		case <-time.After(storeAgain):
		case <-ctx.Done():
			return
		}
	}
	level := slog.LevelInfo
	if e.Op == process.Query {
		level = slog.LevelDebug
	}
	r.sup.cfg.Log.Log(ctx, level, "operation ended", "process", r.id, "op", e.Op, "item", e.Item,
		"fault", result.Outcome.Fault, "text", result.Outcome.Text)
	if e.Op != process.Query {
		r.post(func(ctx context.Context, r *runner) { r.operated(ctx, &e, result) })
		return
	}
	if rec := subject.Record; rec != nil && rec.Spec.Commands.Asks() {
		r.sup.cfg.Sink.Changed(r.id) // what it has just said of itself
	}
	r.sup.cfg.Sink.Finished(e.Item, result.Outcome)
}

func (r *runner) outcome(ctx context.Context, t task, subject operation.Subject) (operation.Result, error) {
	e := t.entry
	failed := func(text string) operation.Result {
		return operation.Result{
			Outcome: process.Outcome{Fault: process.Failed, Text: text, Hosted: subject.Hosted()},
			Runtime: subject.Runtime,
		}
	}
	if t.overtaken {
		return failed("overtaken: the agent's disk was an old copy, and the operation had ended"), nil
	}
	if e.Boot != r.sup.cfg.Store.BootID() && e.Op.Info().RunsCommands {
		if t.behind {
			return failed("not begun: the host was rebooted while the operation waited for an older one"), nil
		}
		return failed(
			"interrupted: the host rebooted during the operation, and drover cannot find out how far the operation came"), nil
	}
	begun := r.sup.operator.Begun(e.Item)
	if !begun && e.Expired(r.sup.cfg.Store.BootID(), r.sup.operator.Clock()) {
		return failed("expired: the operation was not begun by " + e.Expires.UTC().Format(time.RFC3339)), nil
	}
	if !begun && r.sup.cfg.MayBegin != nil {
		switch wanted, err := r.sup.cfg.MayBegin(ctx, e.Item); {
		case err != nil:
			return r.unbegun(ctx, failed)
		case !wanted:
			return failed("expired: the server gave the operation up before its turn came"), nil
		}
	}
	r.sup.cfg.Sink.Began(e.Item, operation.Limit(e.Op, operation.SpecInForce(e, subject)))
	return r.sup.operator.Operate(ctx, e, subject)
}

// unbegun is what comes of an operation that has ended before it had begun: a kill has overtaken it, or the agent
// stops.
func (r *runner) unbegun(ctx context.Context, failed func(text string) operation.Result) (operation.Result, error) {
	why := operation.Interruption(ctx)
	if errors.Is(why, operation.ErrInterrupted) {
		return operation.Result{}, why
	}
	return failed(why.Error()), nil
}

// operated goes on after an operation.
func (r *runner) operated(ctx context.Context, e *specstore.Entry, result operation.Result) {
	r.work.busy = false
	was := priorState{r.record, r.runtime}
	r.apply(e, result)
	ended := lifecycle.Ended{Alive: r.runtime.Process != nil, Restore: result.Restore, Now: result.Now}
	r.stepAndEmit(ctx, ended, func(_, to lifecycle.State) {
		actor := e.Actor
		actor.Kind, actor.Operation = process.ActorCaller, e.Item
		r.emitLeftovers(result.Ended, actor)
		r.emitOperation(e, result, was, to)
	})
	r.beginOwed(ctx)
	r.sup.operator.Ended(e.Item) // the latest run is shown by now
	// Last: whoever hears of the outcome is to see the state that belongs to it.
	r.sup.cfg.Sink.Finished(e.Item, result.Outcome)
}

// apply takes over what an operation has left.
func (r *runner) apply(e *specstore.Entry, result operation.Result) {
	switch {
	case result.Change.Delete:
		r.record, r.history = nil, specstore.History{}
		r.dropRuntime()
		r.desired() // the removal is newer
		r.sup.cfg.Sink.Gone(r.id, r.latestRevision())
	case result.Change.Put != nil:
		r.record = result.Change.Put
	}
	before := r.runtime
	r.runtime = result.Runtime
	r.runtime.Attempts, r.runtime.LaunchedAt, r.runtime.RetryAt = before.Attempts, before.LaunchedAt, before.RetryAt
	r.runtime.Note, r.runtime.Cause = before.Note, before.Cause
	r.runtime.LastExit = lastExit(before.LastExit, r.runtime.LastExit)
	if result.Change.Put != nil &&
		(result.Outcome.Fault == process.None || result.Outcome.Fault == process.NotRunning) {
		r.runtime.Note, r.runtime.Cause = "", process.Cause{}
		if r.runtime.Outside && r.runtime.Process != nil {
			r.blame(process.CauseOutside, startedFromOutside(r.pid()))
		}
	}
	r.blameOperation(e, &result)
	if result.Restore {
		r.runtime.Relaunches, r.runtime.Breaches = nil, nil
	}
	if result.Restore && (e.Op == process.Start || e.Op == process.Restart) {
		r.runtime.Restarts = 0
	}
	r.schedule()
}

// released goes on after a hold: another process's operation may have ended the instance that both are.
func (r *runner) released(ctx context.Context, fate operation.PeerEffect, by *specstore.Entry) {
	r.work.busy = false
	was := r.pid()
	switch fate {
	case operation.Down:
		r.unhostedByPeer(by)
	case operation.AskedToo:
		r.pendingStopByPeer(by)
	case operation.Untouched:
	}
	r.sighted(r.look())
	r.stepAndEmit(ctx, lifecycle.Ended{Alive: r.runtime.Process != nil}, func(_, to lifecycle.State) {
		if fate == operation.Down && r.record != nil {
			actor := by.Actor
			actor.Kind, actor.Operation = process.ActorCaller, by.Item
			r.happened(r.work.prior, to, process.Event{
				Kind: by.Op.Info().Event, PID: was, Exit: r.exitSince(r.work.since),
				Actor: actor, Cause: r.record.Rest,
			})
		}
	})
	r.beginOwed(ctx)
}

// unhostedByPeer drops the hosting flag after another process's operation has stopped the instance that both are.
func (r *runner) unhostedByPeer(by *specstore.Entry) {
	if r.record == nil {
		return
	}
	rec := *r.record
	rec.Hosted, rec.GivenUp, rec.Want = false, false, process.WantStopped
	rec.Rest = restAfter(by, rec.Rest)
	rec.Rest.Text = join(rec.Rest.Text, "as "+by.Process.String()+", its other name")
	r.put(rec)
	r.runtime.Note, r.runtime.Cause = "", process.Cause{}
	r.schedule()
}
