package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// start begins a task.
func (r *runner) start(ctx context.Context, t task) {
	if t.entry.Op == process.Query {
		r.query(ctx, t)
		return
	}
	if r.passes(&t) {
		r.signalBeside(ctx, t)
		return
	}
	r.hold()
	r.work.prior, r.work.entry, r.work.registers = r.proc.Machine.State, &t.entry, r.firstRecord(&t)
	r.leaveBudget()
	r.sup.cfg.Probes.Drop(r.id)
	if t.hold == nil {
		r.showLate()
	}
	r.step(ctx, lifecycle.Began{})
	r.published()
	if t.hold != nil {
		r.work.entry = nil
		close(t.hold.confirmed)
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
	doing, r.work.endPreparation = operation.Stoppable(doing)
	began := r.work.since
	subject := operation.Subject{
		Record: r.proc.Record, Runtime: r.proc.Runtime, Overtook: t.overtook, Hurry: hurry,
		Checking: func(rt record.Runtime) {
			r.post(func(_ context.Context, r *runner) {
				if r.work.since == began {
					r.proc.Machine, _ = r.proc.Machine.Step(r.policy(), lifecycle.Checking{}, r.now())
					r.becomes(rt)
				}
			})
		},
	}
	r.sup.goroutines.spawn(func() {
		defer cancel(nil)
		r.operate(ctx, withHolder(doing, &t.entry), t, subject)
	})
}

// firstRecord returns what a first start of a process of a process file registers when it ends; nil for another task.
// Lists show the process from now on, so that somebody can see it and stop it.
func (r *runner) firstRecord(t *task) *record.Record {
	e := &t.entry
	if r.proc.Record != nil || t.hold != nil || e.Op != process.Start || e.Spec == nil || e.Spec.Compat != nil {
		return nil
	}
	rec := &record.Record{ID: r.id, Spec: *e.Spec}
	rec.Spec.Beside = ""
	rec.Decide(true, process.WantRunning)
	return rec
}

// ShowAfter is how long an operation lasts before the server is told of it, and of the instance that it checks. Most
// operations are over by then, and one report tells all.
const ShowAfter = 2 * time.Second

// showLate shows the operation that has begun if it lasts longer than ShowAfter.
func (r *runner) showLate() {
	began := r.work.since
	r.work.show = time.AfterFunc(ShowAfter, func() {
		r.post(func(_ context.Context, r *runner) {
			if r.work.since == began && r.proc.Machine.State == lifecycle.Operating {
				r.work.show = nil
				r.publish()
			}
		})
	})
}

// becomes takes over the instance that a start has brought up and checks.
func (r *runner) becomes(rt record.Runtime) {
	if was := r.proc.Runtime.Process; rt.Process != nil && (was == nil || *was != *rt.Process) {
		r.work.runtime = &rt
		r.publish()
	}
}

// query answers a query, which changes nothing: the watch stays, and the runner takes over what the look shows. If the
// look is the whole answer, the query runs in this goroutine. If something may block, the query runs in a goroutine of
// its own.
func (r *runner) query(ctx context.Context, t task) {
	var seen *process.Instance
	if r.proc.Machine.State != lifecycle.Unknown {
		seen = r.refresh(ctx)
		r.review(ctx)
	}
	subject := operation.Subject{Record: r.proc.Record, Runtime: r.proc.Runtime, Instance: seen}
	over := r.comparing
	if seen != nil && over == nil && !r.proc.Record.Spec.Asks() {
		r.operate(ctx, ctx, t, subject)
		return
	}
	r.sup.goroutines.spawn(func() {
		afterComparison(ctx, over)
		r.operate(ctx, ctx, t, subject)
	})
}

// signalBeside sends a signal to the process of the work under way, such as a start or a stop. That work goes on.
func (r *runner) signalBeside(ctx context.Context, t task) {
	r.signalling, t.passes = time.Now().UnixMilli(), true
	r.published()
	p := r.public()
	subject := operation.Subject{Record: p.Record, Runtime: p.Runtime}
	r.sup.goroutines.spawn(func() { r.operate(ctx, ctx, t, subject) })
}

// signalled continues after a signal that has passed other work. It takes over nothing: what has become of the process
// is for that work to find out.
func (r *runner) signalled(e *record.Entry, subject operation.Subject, result operation.Result) {
	since := r.signalling
	r.signalling = 0
	r.noteSignal(e, result.Outcome, since)
	c := r.unchanged()
	events := r.proc.Operated(c, &story.Operation{
		Entry: e, Outcome: result.Outcome, Record: subject.Record, Runtime: subject.Runtime, Prior: c.From,
		Since: since,
	})
	if to := result.Runtime.Process; to != nil && len(events) > 0 {
		events[0].PID = to.PID // the record of the process does not have the instance yet
	}
	r.tell(events...)
	r.sup.cfg.Sink.Finished(e.Item, result.Outcome)
}

// noteSignal notes a signal that was sent, or a reload, because the process may end by it.
func (r *runner) noteSignal(e *record.Entry, o process.Outcome, since int64) {
	now := time.Now().UnixMilli()
	sent := &sentSignal{at: since, until: now + effect.Milliseconds(), by: story.Caller(e.Actor, e.Item)}
	spec := operation.SpecInForce(*e, operation.Subject{Record: r.proc.Record})
	name, _, isSignal := e.Op.Signal()
	switch {
	case isSignal && o.Fault == process.None:
		sent.number = process.SignalNumber(name)
	case e.Op.Name() == process.Reload && o.Fault != process.None:
		sent.until, sent.reload = now, true
	case e.Op.Name() == process.Reload && spec != nil && spec.ReloadSignal() != "":
		sent.number, sent.reload = process.SignalNumber(spec.ReloadSignal()), true
	default:
		return
	}
	r.sent = sent
}

// hold records that something holds the process from now on.
func (r *runner) hold() {
	r.work = work{since: time.Now().UnixMilli(), prior: r.work.prior}
}

// storeAgain is the pause between attempts to store an outcome: the disk is full or gone.
const storeAgain = time.Second

// operate carries out one operation, and stores its outcome before it reports the outcome. doing ends before ctx if a
// kill ends the operation.
func (r *runner) operate(ctx, doing context.Context, t task, subject operation.Subject) {
	e := t.entry
	result, err := r.outcome(doing, t, subject)
	if err != nil {
		return // the agent stops, and the next agent continues
	}
	r.notePendingStop(&e, subject, &result)
	if rec := result.Change.Put; rec != nil {
		if rec.RegisteredAt == 0 {
			rec.RegisteredAt = time.Now().Unix()
		}
		if !result.StopPending && (rec.Hosted || e.Op != process.Host) {
			rec.Rest = story.RestAfter(time.Now(), &e, rec.Rest)
		}
		result.Runtime = withSpec(result.Runtime, subject.Record, rec)
	}
	registered := !result.Change.Delete && (result.Change.Put != nil || subject.Record != nil)
	if e.Op != process.Query && !t.passes && registered {
		// Store the runtime before the outcome, because Finish drops the progress: the next agent must find the
		// instance and its run in one of the two.
		r.storeRuntime(result.Runtime)
	}
	for e.Op != process.Query { // drover does not store the outcome of a query
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
		r.post(func(ctx context.Context, r *runner) {
			if t.passes {
				r.signalled(&e, subject, result)
			} else {
				r.operated(ctx, &e, result)
			}
		})
		return
	}
	if rec := subject.Record; rec != nil && rec.Spec.Asks() {
		r.sup.cfg.Sink.Changed(r.id) // the answers of the health and version commands
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
	if !begun {
		if err := r.inOrder(ctx, t, &subject); errors.Is(err, operation.ErrInterrupted) {
			return operation.Result{}, err
		} else if err != nil {
			return r.sup.operator.NotBegun(ctx, t.entry, subject, err), nil
		}
	}
	if !begun && e.Expired(r.sup.cfg.Store.BootID(), r.sup.operator.Clock(), time.Now()) {
		return failed("expired: the operation was not begun by " + e.Expires.UTC().Format(time.RFC3339)), nil
	}
	if !begun && r.sup.cfg.MayBegin != nil {
		switch wanted, err := r.sup.cfg.MayBegin(ctx, e.Item); {
		case err != nil:
			return r.resultBeforeBegin(ctx, failed)
		case !wanted:
			result := failed("")
			result.Outcome.Fault, result.Outcome.Text = process.NotBegun().Fault, process.NotBegun().Text
			return result, nil
		}
	}
	r.sup.cfg.Sink.Began(e.Item, operation.Limit(e.Op, operation.SpecInForce(e, subject)))
	result, err := r.sup.operator.Operate(ctx, e, subject)
	if err == nil && e.Ordered && e.Op.Name() == process.Restart && result.Outcome.Fault == process.None {
		result.Outcome.Text = story.Join(result.Outcome.Text, r.sup.leftAlone(r.id))
	}
	if spec := operation.SpecInForce(e, subject); err == nil && e.Ordered && e.Op == process.Start && spec != nil {
		if names := r.sup.missingPeers(r.id, spec); len(names) > 0 {
			result.Outcome.Text = story.Join(result.Outcome.Text, "this host lacks "+strings.Join(names, ", ")+
				", which counts as up")
		}
	}
	return result, err
}

// resultBeforeBegin is the result of an operation that ended before it began: a kill has overtaken it, or the agent
// stops.
func (r *runner) resultBeforeBegin(ctx context.Context, failed func(text string) operation.Result) (
	operation.Result, error,
) {
	why := operation.Interruption(ctx)
	if errors.Is(why, operation.ErrInterrupted) {
		return operation.Result{}, why
	}
	return failed(why.Error()), nil
}

// operated continues after an operation.
func (r *runner) operated(ctx context.Context, e *record.Entry, result operation.Result) {
	before := r.proc
	if r.work.show != nil {
		r.work.show.Stop()
		r.work.show = nil
	}
	r.noteSignal(e, result.Outcome, r.work.since)
	if result.Outcome.Cause == process.CauseStopped && !r.work.killed {
		r.stopped()
	}
	r.apply(e, result)
	over := r.overAtOnce(&result)
	forbidden := result.Restore && r.endedForGood(before.Runtime.LastExit)
	r.asked = result.Now && r.proc.Runtime.Process == nil
	ended := lifecycle.Ended{
		Alive: r.proc.Runtime.Process != nil, Restore: result.Restore, Now: result.Now, Forbidden: forbidden,
	}
	r.stepAndTell(ctx, ended, func(c story.Change) []process.Event {
		r.tellLeftovers(result.Ended, story.Caller(e.Actor, e.Item))
		op := r.operation(e, &result, before)
		op.Over = over
		return r.proc.Operated(c, op)
	})
	r.beginOwed(ctx)
	r.sup.operator.Ended(e.Item) // from here on the runtime names the latest run
	// Report the outcome last: its receiver must see the state that belongs to it.
	if e.Op.Name() == process.Reload && result.Outcome.Fault != process.None { // its end may come first
		r.post(func(context.Context, *runner) { r.sup.cfg.Sink.Finished(e.Item, result.Outcome) })
		return
	}
	r.sup.cfg.Sink.Finished(e.Item, result.Outcome)
}

// overAtOnce records the end of a resident process that has succeeded within the check of its start and needs no
// relaunch, as finish does for a later end. It returns nil if there is none.
func (r *runner) overAtOnce(result *operation.Result) *story.End {
	rt, rec := &r.proc.Runtime, result.Change.Put
	if rec == nil || !rec.Finished || r.proc.KeepsRuns() || rt.Process != nil || rt.Ended == nil ||
		rt.LastExit == nil || rt.LastExit.At < r.work.since {
		return nil
	}
	r.proc.BlameExit(time.Now(), rt.Ended.PID, rt.LastExit, liveness.ExitOf(rt.LastExit).String(), "")
	r.finish()
	was := r.endOf(*rt.Ended, rt)
	was.How, was.Why = rt.LastExit, r.proc.Cause()
	was = r.withOutput(r.withLastWords(was))
	return &was
}

// apply takes over the result of an operation.
func (r *runner) apply(e *record.Entry, result operation.Result) {
	switch {
	case result.Change.Delete:
		r.proc.Record, r.proc.History = nil, record.History{}
		r.dropRuntime()
		r.desired() // drop it: the removal is newer
		r.sup.cfg.Sink.Removed(r.id, r.latestRevision())
	case result.Change.Put != nil:
		r.proc.Record = result.Change.Put
	}
	before := r.proc.Runtime
	r.proc.Runtime = result.Runtime
	rt := &r.proc.Runtime
	rt.Attempts, rt.LaunchedAt, rt.RetryAt = before.Attempts, before.LaunchedAt, before.RetryAt
	rt.Failing, rt.FailingBy = before.Failing, before.FailingBy
	rt.Waited = result.Restore &&
		(result.Outcome.Cause == process.CauseWaitsForOthers || result.Now && e.Op == process.Host)
	rt.Note, rt.Cause = before.Note, before.Cause
	rt.LastExit = story.LaterExit(before.LastExit, rt.LastExit)
	done := result.Outcome.Fault == process.None
	if result.Change.Put != nil && (done || result.Outcome.Fault == process.NotRunning) ||
		done && e.Op.Name() == process.Reload || // also of a process that drover does not host
		done && e.Op == process.Preflight && before.Cause.ID == process.CausePreflight {
		r.proc.Clear()
		if r.proc.Runtime.Outside && r.proc.Runtime.Process != nil {
			r.proc.BlameOutside(time.Now(), "")
		}
	}
	r.proc.BlameOperation(time.Now(), e, result.Outcome, result.Wrote)
	if result.Restore {
		r.proc.Withheld = process.Cause{}
		r.proc.Runtime.Relaunches, r.proc.Runtime.Breaches = nil, nil
	}
	if result.Restore && (e.Op == process.Start || e.Op.Name() == process.Restart) {
		r.proc.Runtime.Restarts = 0
	}
	r.schedule()
}

// released continues after a hold: an operation on another process may have ended the instance that both processes
// share.
func (r *runner) released(ctx context.Context, fate operation.PeerEffect, by *record.Entry) {
	pid, since := r.proc.PID(), r.work.since
	switch fate {
	case operation.Down:
		r.unhostedByPeer(by)
	case operation.AskedToo:
		r.pendingStopByPeer(by)
	case operation.Untouched:
	}
	r.recordSighting(r.find())
	r.stepAndTell(ctx, lifecycle.Ended{Alive: r.proc.Runtime.Process != nil}, func(c story.Change) []process.Event {
		if fate != operation.Down || r.proc.Record == nil {
			return nil
		}
		c.From = r.work.prior
		return []process.Event{r.proc.StoppedByPeer(c, by, pid, since)}
	})
	r.beginOwed(ctx)
}

// unhostedByPeer unhosts the process after an operation on another process has stopped the instance that both share.
func (r *runner) unhostedByPeer(by *record.Entry) {
	if r.proc.Record == nil {
		return
	}
	rec := *r.proc.Record
	rec.Decide(false, process.WantStopped)
	rec.Rest = story.RestAfter(time.Now(), by, rec.Rest)
	rec.Rest.Text = story.Join(rec.Rest.Text, "as "+by.Process.String()+", its other name")
	r.put(rec)
	r.proc.Clear()
	r.schedule()
}
