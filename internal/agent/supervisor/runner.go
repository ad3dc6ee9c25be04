package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// runner is one process: one goroutine at a time that owns the machine, and none at rest; and beside it one that carries out what
// takes time, and those that answer questions.
type runner struct {
	*mailbox
	sup  *Supervisor
	id   process.ID
	face sharedFace

	// What follows belongs to the goroutine of run.
	record  *specstore.Record
	runtime specstore.Runtime
	machine lifecycle.Machine
	timer   *time.Timer // nil when none is armed
	alarm   int         // counts the timers that were armed or disarmed
	begun   bool
	busy    bool
	unwatch func()
	// history is kept for periodic and single runs.
	history specstore.History
	// prior is the state before the operation that holds the process.
	prior lifecycle.State
	// since is when what holds the process began, in Unix milliseconds.
	since int64
	// told is when the last event was, in Unix milliseconds.
	told int64
	// doubted says that the process was not seen any more, while its watch has not told of its end.
	doubted bool
	// placed says that the next relaunch has its place in the host's budget.
	placed bool
	// unplace gives the place in the host's budget back; nil when there is none.
	unplace func(now time.Duration)
	// held begins the relaunch that waits for the server's word; nil where none does.
	held func(context.Context)
	// comparing is closed when the configuration files have been looked at; nil while nobody does.
	comparing chan struct{}
	// refusal is why it is not started again, as it was told; spared the instance that was last told not to be ended.
	refusal string
	spared  procfs.Identity
	// unbudgeted says that the relaunch which waits has no place in the host's budget, because it waits for the policy.
	unbudgeted bool
	// flapped is whether the process was flapping when that was looked at last.
	flapped bool
}

func (s *Supervisor) newRunner(id process.ID, rec *specstore.Record) *runner {
	r := &runner{mailbox: &mailbox{}, sup: s, id: id, record: rec}
	if rec != nil {
		rt, err := s.cfg.Store.GetRuntime(id)
		if err != nil {
			s.cfg.Log.Warn("state of process could not be read", "process", id, "error", err)
		}
		r.runtime = rt
		r.flapped = len(rt.Relaunches) > s.cfg.Bounds.Flaps // as it was told last
		r.readHistory()
	}
	r.show()
	return r
}

// run is one turn of the runner: it sees to all that has come. It returns when there is nothing left, when ctx has ended, or when the
// process is not known (any more).
func (r *runner) run(ctx context.Context) {
	if !r.begun {
		r.begun = true
		r.begin(ctx)
	}
	for ctx.Err() == nil {
		waits := r.sup.waits() // asked first: what the server knows is there before the wait ends
		r.reconcile(ctx)
		if !waits {
			r.release(ctx)
		}
		begins := func(t *task) bool { return !waits && r.admits(t) }
		for t, ok := r.next(begins); ok; t, ok = r.next(begins) {
			r.start(ctx, t)
		}
		if !r.busy && r.record == nil && r.sup.retire(r) {
			r.rest()
			return
		}
		messages, more := r.take(!r.busy, begins)
		if !more {
			return
		}
		for i := range messages {
			r.handle(ctx, &messages[i])
		}
	}
}

// admits reports whether a task may begin. A query comes after the operations that were asked for before it, so that it shows what they
// have done; for what is done by policy, a relaunch or the end of a process, it does not wait.
func (r *runner) admits(t *task) bool {
	return !r.busy || t.entry.Op == process.Query && r.machine.State != lifecycle.Operating
}

// rest drops the watch and the timer of a runner that has had its last turn.
func (r *runner) rest() {
	r.stopWatch()
	r.disarm()
	r.leaveBudget()
}

// arm has the machine hear of a timer; any other is disarmed.
func (r *runner) arm(t lifecycle.Timer, after time.Duration) {
	r.disarm()
	alarm := r.alarm
	r.timer = time.AfterFunc(after, func() { r.post(message{kind: fired, alarm: alarm, timer: t}) })
}

func (r *runner) disarm() {
	r.alarm++ // one that fires at this moment comes too late
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// begin looks at the process for the first time in this life of the agent.
func (r *runner) begin(ctx context.Context) {
	var actions []lifecycle.Action
	attempts := r.runtime.Attempts
	if r.record != nil && r.record.GivenUp {
		attempts = max(attempts, r.record.Spec.Policy.StartRetries)
	}
	r.machine, actions = lifecycle.New(attempts, r.runtime.LaunchedAt, r.runtime.RetryAt)
	if r.record == nil {
		r.machine, _ = r.machine.Step(r.policy(), lifecycle.NotFound{}, r.now())
		r.show()
		return
	}
	if r.sup.cfg.Operator.Relaunching(r.id) {
		// An earlier agent ended in the middle of a relaunch: its command is waited for, not run again.
		r.machine.State, r.machine.Awaits = lifecycle.Starting, lifecycle.Launch
		r.schedule()
		r.launch(ctx, func(ctx context.Context) { r.relaunch(ctx, r.sup.cfg.Operator.ResumeRelaunch, false) })
		r.show()
		return
	}
	if r.runtime.Ending != nil && r.runtime.Process != nil {
		r.resumeTakeDown(ctx)
		return
	}
	if r.operationPending() {
		// It goes on from where an earlier agent left it, and what follows from its end is decided then: what looks like a crash
		// may be its own doing.
		r.show()
		return
	}
	r.perform(ctx, actions)
}

// start begins a task.
func (r *runner) start(ctx context.Context, t task) {
	if t.entry.Op == process.Query {
		// A question changes nothing: the process stays watched as it is, with what a look has just shown.
		if r.machine.State != lifecycle.Unknown {
			r.relist(ctx)
			r.review(ctx)
		}
		subject := operation.Subject{Record: r.record, Runtime: r.runtime}
		over := r.comparing
		r.sup.turns.beside(func() {
			afterComparison(ctx, over)
			r.operate(ctx, t, subject)
		})
		return
	}
	r.hold()
	r.prior = r.machine.State
	r.leaveBudget()
	r.sup.parts.Probes.Drop(r.id)
	r.step(ctx, lifecycle.Began{})
	if t.hold != nil {
		close(t.hold.held)
		r.sup.turns.beside(func() {
			select {
			case unhost := <-t.hold.released:
				r.post(message{kind: released, unhost: unhost, entry: t.hold.by})
			case <-ctx.Done():
			}
		})
		return
	}
	subject := operation.Subject{Record: r.record, Runtime: r.runtime}
	r.sup.turns.beside(func() { r.operate(withHolder(ctx, &t.entry), t, subject) })
}

// hold notes that something holds the process from now on.
func (r *runner) hold() {
	r.busy, r.since, r.doubted = true, time.Now().UnixMilli(), false
}

// storeAgain is how long an outcome that could not be stored waits for its next try: the disk is full or gone.
const storeAgain = time.Second

// operate carries out one operation, and stores its outcome before anybody hears of it.
func (r *runner) operate(ctx context.Context, t task, subject operation.Subject) {
	e := t.entry
	result, err := r.outcome(ctx, t, subject)
	if err != nil {
		return // the agent stops, and its successor goes on
	}
	if rec := result.Change.Put; rec != nil {
		if rec.RegisteredAt == 0 {
			rec.RegisteredAt = time.Now().Unix()
		}
		rec.Rest = restAfter(&e, rec.Rest)
		result.Runtime = withoutAnswers(result.Runtime, subject.Record, rec)
	}
	if e.Op != process.Query && !result.Change.Delete && (result.Change.Put != nil || subject.Record != nil) {
		// Before the outcome, which drops the progress: a successor must find the instance and its run in one or the other.
		r.keep(result.Runtime)
	}
	for {
		err := r.sup.cfg.Store.Finish(e.Item, r.id, result.Outcome, result.Change)
		if err == nil {
			break
		}
		r.sup.cfg.Log.Error("outcome could not be stored, trying again", "process", r.id, "item", e.Item, "error", err)
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
	r.sup.cfg.Log.Log(ctx, level, "operation ended", "process", r.id, "op", e.Op, "item", e.Item, "fault", result.Outcome.Fault, "text", result.Outcome.Text)
	if e.Op != process.Query {
		r.post(message{kind: operated, entry: &e, result: result})
		return
	}
	if rec := subject.Record; rec != nil && (rec.Spec.Commands.Version != "" || rec.Spec.Commands.Health != "") {
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
	if e.Boot != r.sup.cfg.Store.BootID() && runsCommands(e.Op) {
		if t.behind {
			return failed("not begun: the host was rebooted while the operation waited for an older one"), nil
		}
		return failed("interrupted: the host was rebooted before the operation had ended, and nobody can tell whether it had begun or how far it came"), nil
	}
	begun := r.sup.cfg.Operator.Begun(e.Item)
	if !begun && e.Expired(r.sup.cfg.Store.BootID(), r.sup.cfg.Operator.Clock()) {
		return failed("expired: the operation was not begun by " + e.Expires.UTC().Format(time.RFC3339)), nil
	}
	r.sup.cfg.Sink.Began(e.Item, operation.Limit(e.Op, operation.SpecInForce(e, subject)))
	return r.sup.cfg.Operator.Operate(ctx, e, subject)
}

func runsCommands(op process.Op) bool {
	switch op {
	case process.Start, process.Stop, process.Restart, process.Reload, process.Kill:
		return true
	case process.Query, process.Host, process.Unhost, process.Register, process.Update, process.Unregister, process.Retry, process.SetGroups:
		return false
	}
	return true
}

// handle takes in one message.
func (r *runner) handle(ctx context.Context, m *message) {
	switch m.kind {
	case operated:
		r.busy = false
		before := r.record
		r.apply(m.entry, m.result)
		ended := lifecycle.Ended{Alive: r.runtime.Process != nil, Restore: m.result.Restore, Now: m.result.Now}
		r.stepAndTell(ctx, ended, func(_, to lifecycle.State) { r.tellOperation(m.entry, m.result, before, to) })
		r.beginOwed(ctx)
		// Last: whoever hears of the outcome is to see the state that belongs to it.
		r.sup.cfg.Sink.Finished(m.entry.Item, m.result.Outcome)
	case released:
		r.busy = false
		r.released(ctx, m)
	case relaunched:
		r.busy = false
		r.relaunchEnded(ctx, m)
	case exited:
		r.exited(ctx, m.who, m.exit)
	case relisted:
		r.relist(ctx)
	case fired:
		if m.alarm == r.alarm {
			r.step(ctx, lifecycle.Fired{Timer: m.timer})
		}
	case reviewed:
		r.review(ctx)
	case compared:
		r.compared(ctx, m.comparison)
	case heldBack:
		r.step(ctx, lifecycle.HeldBack{Until: m.until})
	case heard: // run sees to it
	case exceeded:
		r.exceeded(ctx, m.who, m.breach)
	case takenDown:
		r.busy = false
		r.takenDown(ctx, m)
	case answered:
		r.answered(ctx, m)
	case due:
		r.due(ctx, m.at)
	case missed:
		r.missed(m.at, m.count)
	}
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
	if result.Outcome.Fault == process.None && result.Change.Put != nil {
		r.runtime.Note, r.runtime.Cause = "", process.Cause{}
		if r.runtime.Outside && r.runtime.Process != nil {
			r.blame(process.CauseOutside, startedFromOutside(r.pid()))
		}
	}
	r.blameOperation(e, result.Outcome)
	if result.Restore {
		r.runtime.Relaunches, r.runtime.Breaches = nil, nil
	}
	r.schedule()
}

// released goes on after a hold: another process's operation may have ended the instance that both are.
func (r *runner) released(ctx context.Context, m *message) {
	was := r.pid()
	r.unhostedByPeer(m)
	r.sighted(r.look())
	r.stepAndTell(ctx, lifecycle.Ended{Alive: r.runtime.Process != nil}, func(_, to lifecycle.State) {
		if m.unhost && r.record != nil {
			actor := m.entry.Actor
			actor.Kind, actor.Operation = process.ActorCaller, m.entry.Item
			r.happened(r.prior, to, process.Event{Kind: process.EventStopped, PID: was, Exit: r.exitSince(r.since), Actor: actor, Cause: r.record.Rest})
		}
	})
	r.beginOwed(ctx)
}

// unhostedByPeer drops the hosting flag after another process's operation has stopped the instance that both are.
func (r *runner) unhostedByPeer(m *message) {
	if !m.unhost || r.record == nil {
		return
	}
	rec := *r.record
	rec.Hosted, rec.GivenUp, rec.Want = false, false, process.WantStopped
	rec.Rest = restAfter(m.entry, rec.Rest)
	rec.Rest.Text = join(rec.Rest.Text, "as "+m.entry.Process.String()+", which it was too")
	if n, err := r.sup.cfg.Revisions.NextRevision(); err == nil { // else the record can't be stored either
		rec.Revision = n
	}
	if err := r.sup.cfg.Store.PutRecord(rec); err != nil {
		r.sup.cfg.Log.Error("hosting flag could not be stored", "process", r.id, "error", err)
	}
	r.record = &rec
	r.runtime.Note, r.runtime.Cause = "", process.Cause{}
	r.schedule()
}

// exited takes in the end of the watched instance.
func (r *runner) exited(ctx context.Context, who procfs.Identity, exit liveness.Exit) {
	if r.runtime.Process == nil || *r.runtime.Process != who {
		return
	}
	r.stopWatch()
	how, run, began := exit.Process(), r.runtime.Run, r.runtime.LastStartAt
	if exit.Signal == syscall.SIGKILL && run != "" {
		how.OOM = r.sup.parts.OOM(run)
	}
	r.runtime.LastExit = how
	if r.runtime.Ending == nil {
		r.blame(how.Cause(), "pid "+itoa(who.PID)+" "+exit.String()+oomNote(how)+" at "+exit.At.UTC().Format(time.RFC3339))
	}
	if r.busy {
		r.show() // an operation holds the process: it looks for itself
		return
	}
	cause := r.cause()
	seen := r.look()
	r.sighted(seen)
	var ev lifecycle.Event = lifecycle.Exited{}
	if seen.Alive() {
		ev = lifecycle.Found{}
		if r.record.Spec.Policy.Kind == process.Periodic && run != "" {
			// The command has left the process of its run behind.
			r.runtime.Run, r.runtime.Outside, r.runtime.LastStartAt = run, false, began
			r.runtime.Note, r.runtime.Cause = "the run goes on as pid "+itoa(seen.ID.PID), process.Cause{}
			r.step(ctx, ev)
			return
		}
	}
	r.stepAndTell(ctx, ev, func(from, to lifecycle.State) {
		r.sup.cfg.Log.Info("process ended", "process", r.id, "pid", who.PID, "exit", exit.String())
		r.tellEnd(from, to, end{pid: who.PID, how: how, why: cause, run: run, began: began})
	})
}

// relist compares what is believed with what is there.
func (r *runner) relist(ctx context.Context) {
	if r.busy || r.record == nil || r.sup.stands(r) {
		r.doubted = false
		return
	}
	before := r.runtime.Process
	if before != nil && r.unwatch != nil && !r.doubted {
		// Its watch is about to tell how it ended. If not, the next look counts.
		r.doubted = true
		return
	}
	r.doubted = false
	seen := r.look()
	r.sighted(seen)
	switch {
	case seen.Alive() && (before == nil || *before != *seen.ID):
		r.stepAndTell(ctx, lifecycle.Found{}, r.tellFound)
	case !seen.Alive() && before != nil:
		r.unseen(before.PID)
		gone := end{pid: before.PID, why: r.cause(), run: r.runtime.Run, began: r.runtime.LastStartAt}
		r.stepAndTell(ctx, lifecycle.NotFound{}, func(from, to lifecycle.State) { r.tellEnd(from, to, gone) })
	}
}

// unseen notes an end of which nobody knows how it was.
func (r *runner) unseen(pid int) {
	r.runtime.LastExit = &process.Exit{At: time.Now().UnixMilli()}
	r.blame(process.CauseUnseen, "pid "+itoa(pid)+" has ended, and nobody saw how")
}

func (r *runner) look() operation.Sighting {
	if r.record == nil {
		return operation.Sighting{}
	}
	return r.sup.cfg.Operator.Look(r.id, &r.record.Spec, r.runtime)
}

func (r *runner) sighted(seen operation.Sighting) {
	r.runtime = operation.Sighted(r.runtime, seen)
	if seen.Alive() && r.runtime.Outside {
		r.blame(process.CauseOutside, startedFromOutside(seen.ID.PID))
	}
}

// stopWatch ends the watch, if there is one.
func (r *runner) stopWatch() {
	if r.unwatch != nil {
		r.unwatch()
		r.unwatch = nil
	}
}

// watch follows the instance that was seen last.
func (r *runner) watch() {
	r.stopWatch()
	who := *r.runtime.Process
	stop, err := r.sup.cfg.Operator.Processes.Watch(who, func(e liveness.Exit) {
		r.post(message{kind: exited, who: who, exit: e})
	})
	switch {
	case errors.Is(err, liveness.ErrGone):
		r.post(message{kind: exited, who: who, exit: liveness.Exit{At: time.Now()}})
	case err != nil:
		r.sup.cfg.Log.Error("process could not be watched, only the regular listing sees it", "process", r.id, "pid", who.PID, "error", err)
	default:
		r.unwatch = stop
	}
}
