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

// runner is one process: one goroutine at a time that owns the machine, and none at rest; and beside it one that
// carries out what takes time, and those that answer questions.
type runner struct {
	*mailbox
	sup    *Supervisor
	id     process.ID
	shared sharedSnapshot

	// What follows belongs to the goroutine of run.
	proc         story.Process
	savedHistory specstore.History
	timer        machineTimer
	work         work
	watchState   watchState
	// cancelPlace gives back the place in the budget of the host that a relaunch waits for; nil where none does.
	cancelPlace func(now time.Duration)
	// lastEventAt is when the last event was, in Unix milliseconds.
	lastEventAt int64
	denials     policyDenials
	claims      claimState
	// comparing is closed when the configuration files have been looked at; nil while nobody does.
	comparing chan struct{}
}

// work is what holds the process: an operation, a relaunch, or its end by policy.
type work struct {
	// since is when the last of it began, in Unix milliseconds.
	since int64
	// prior is the state before the last operation.
	prior lifecycle.State
	// entry is the operation under way; nil where it is none, but drover's own doing or a hold.
	entry *specstore.Entry
	// cancel ends it before its time, nil where nothing can; killed says that it has been called.
	cancel context.CancelCauseFunc
	killed bool
	// endCheck has its check end, nil where there is none or it has been told to.
	endCheck chan struct{}
}

func (s *Supervisor) newRunner(id process.ID, rec *specstore.Record) *runner {
	r := &runner{mailbox: &mailbox{}, sup: s, id: id, proc: story.Process{Record: rec, Bounds: s.cfg.Bounds}}
	if rec != nil {
		rt, err := s.cfg.Store.GetRuntime(id)
		if err != nil {
			s.cfg.Log.Warn("cannot read state of process", "process", id, "error", err)
		}
		r.proc.Runtime = rt
		r.readHistory()
	}
	r.publish()
	return r
}

// run is one turn of the runner: it sees to all that has come. It returns when there is nothing left, when ctx has
// ended, or when the process is not known (any more).
func (r *runner) run(ctx context.Context) {
	if r.proc.Machine.State == "" {
		r.begin(ctx)
	}
	for ctx.Err() == nil {
		waits := r.sup.waits() // asked first: what the server knows is there before the wait ends
		r.reconcile(ctx)
		if !waits && r.proc.Machine.Awaits == lifecycle.Confirmation {
			r.step(ctx, lifecycle.Confirmed{})
		}
		begins := func(t *task, first bool) bool { return !waits && r.admits(t, first) }
		for t, ok := r.next(begins); ok; t, ok = r.next(begins) {
			r.start(ctx, t)
		}
		r.preempt()
		if !r.proc.Machine.Busy() && r.proc.Record == nil && r.sup.retire(r) {
			r.stopTimers()
			return
		}
		messages, more := r.drain(!r.proc.Machine.Busy(), begins)
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
		return !r.proc.Machine.Busy()
	}
	free := first && r.proc.Machine.Awaits != lifecycle.Operation
	return free || time.Since(t.queued) >= queryPatience
}

// preempt has what is under way give way to what waits: a kill ends it, a stop or unhost ends its check. It sees to it
// that a query that waits is looked at again.
func (r *runner) preempt() {
	r.eachWaiting(func(t *task) {
		switch {
		case !r.proc.Machine.Busy() || t.hold != nil:
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
	attempts := r.proc.Runtime.Attempts
	if r.proc.Record != nil && r.proc.Record.GivenUp {
		attempts = max(attempts, r.proc.Record.Spec.Policy.StartRetries)
	}
	r.proc.Machine, actions = lifecycle.New(attempts, r.proc.Runtime.LaunchedAt, r.proc.Runtime.RetryAt)
	if r.proc.Record == nil {
		r.proc.Machine, _ = r.proc.Machine.Step(r.policy(), lifecycle.NotFound{}, r.now())
		r.publish()
		return
	}
	if r.sup.operator.Relaunching(r.id) {
		// An earlier agent ended in the middle of a relaunch: its command is waited for, not run again.
		r.proc.Machine, actions = lifecycle.Resume(r.proc.Machine, r.policy())
		r.schedule()
		r.perform(ctx, actions)
		r.publish()
		return
	}
	if r.proc.Runtime.Ending != nil && r.proc.Runtime.Process != nil {
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
