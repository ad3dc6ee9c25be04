package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// runner is one process: one goroutine at a time that owns the machine, and none at rest; and beside it one that
// carries out what takes time, and those that answer questions.
type runner struct {
	*mailbox
	sup    *Supervisor
	id     process.ID
	shared sharedSnapshot

	// What follows belongs to the goroutine of run.
	record  *specstore.Record
	runtime specstore.Runtime
	machine lifecycle.Machine // without a state until it has begun
	// history is kept for periodic and single runs.
	history     specstore.History
	timer       machineTimer
	work        work
	watchState  watchState
	relaunching plannedRelaunch
	lastEvent   lastEvent
	denials     policyDenials
	claims      claimState
	// comparing is closed when the configuration files have been looked at; nil while nobody does.
	comparing chan struct{}
}

// work is what holds the process: an operation, a relaunch, or its end by policy.
type work struct {
	busy bool
	// since is when the last of it began, in Unix milliseconds.
	since int64
	// prior is the state before the last operation.
	prior lifecycle.State
	// entry is the operation under way; nil where it is none, but drover's own doing or a hold.
	entry *specstore.Entry
	// cancel ends it before its time, nil where nothing can; killed says that it has been called.
	cancel context.CancelCauseFunc
	killed bool
	// endCheck has its check end, nil where there is none or it has been told to; checking says that a check is under
	// way.
	endCheck chan struct{}
	checking bool
}

// lastEvent is what was told last.
type lastEvent struct {
	// at is when the last event was, in Unix milliseconds.
	at int64
}

func (s *Supervisor) newRunner(id process.ID, rec *specstore.Record) *runner {
	r := &runner{mailbox: &mailbox{}, sup: s, id: id, record: rec}
	if rec != nil {
		rt, err := s.cfg.Store.GetRuntime(id)
		if err != nil {
			s.cfg.Log.Warn("cannot read state of process", "process", id, "error", err)
		}
		r.runtime = rt
		r.readHistory()
	}
	r.publish()
	return r
}

// run is one turn of the runner: it sees to all that has come. It returns when there is nothing left, when ctx has
// ended, or when the process is not known (any more).
func (r *runner) run(ctx context.Context) {
	if r.machine.State == "" {
		r.begin(ctx)
	}
	for ctx.Err() == nil {
		waits := r.sup.waits() // asked first: what the server knows is there before the wait ends
		r.reconcile(ctx)
		if !waits {
			r.release(ctx)
		}
		begins := func(t *task, first bool) bool { return !waits && r.admits(t, first) }
		for t, ok := r.next(begins); ok; t, ok = r.next(begins) {
			r.start(ctx, t)
		}
		r.preempt()
		if !r.work.busy && r.record == nil && r.sup.retire(r) {
			r.stopTimers()
			return
		}
		messages, more := r.drain(!r.work.busy, begins)
		if !more {
			return
		}
		for _, m := range messages {
			m(ctx, r)
		}
	}
}

// queryPatience is how long a query waits for what was asked for before it. Then it is answered with what is there.
const queryPatience = 5 * time.Second

// admits reports whether a task may begin. A query comes after the operations that were asked for before it, so that it
// shows what they have done. It does not wait for a check, nor for what is done by policy, and for a command no longer
// than queryPatience.
func (r *runner) admits(t *task, first bool) bool {
	if t.entry.Op != process.Query || t.hold != nil {
		return !r.work.busy
	}
	free := first && (!r.work.busy || r.machine.State != lifecycle.Operating || r.work.checking)
	return free || time.Since(t.queued) >= queryPatience
}

// preempt has what is under way give way to what waits: a kill ends it, a stop or unhost ends its check. It sees to it
// that a query that waits is looked at again.
func (r *runner) preempt() {
	r.eachWaiting(func(t *task) {
		switch {
		case !r.work.busy || t.hold != nil:
		case t.entry.Op == process.Kill && r.work.cancel != nil && !t.begun:
			t.overtook = t.overtook || !r.work.killed && r.work.entry != nil && r.work.entry.Op != process.Kill
			r.work.killed = true
			r.work.cancel(operation.KilledBy(t.entry.Item))
		case (t.entry.Op == process.Stop || t.entry.Op == process.Unhost) && r.work.endCheck != nil:
			close(r.work.endCheck)
			r.work.endCheck = nil
		case t.entry.Op == process.Query && !t.timed:
			t.timed = true
			time.AfterFunc(queryPatience-time.Since(t.queued), r.wake)
		}
	})
}

// stopTimers drops the watch and the timer of a runner that has had its last turn.
func (r *runner) stopTimers() {
	r.stopWatch()
	r.timer.disarm()
	r.leaveBudget()
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
		r.publish()
		return
	}
	if r.sup.operator.Relaunching(r.id) {
		// An earlier agent ended in the middle of a relaunch: its command is waited for, not run again.
		r.machine.State, r.machine.Awaits = lifecycle.Starting, lifecycle.Launch
		r.schedule()
		r.launch(ctx, func(ctx context.Context) { r.relaunch(ctx, r.sup.operator.ResumeRelaunch, false) })
		r.publish()
		return
	}
	if r.runtime.Ending != nil && r.runtime.Process != nil {
		r.resumeTakeDown(ctx)
		return
	}
	if r.operationPending() {
		// It goes on from where an earlier agent left it, and what follows from its end is decided then: what looks
		// like a crash may be its own doing.
		r.publish()
		return
	}
	r.perform(ctx, actions)
}
