package supervisor

import (
	"context"
	"sync/atomic"
	"time"

	"drover/internal/agent/budget"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// runner manages one process. At most one goroutine at a time owns its machine, and none while it is idle. One more
// goroutine does the work that takes time, and others answer queries.
type runner struct {
	*mailbox
	sup    *Supervisor
	id     process.ID
	shared sharedSnapshot
	// recorded is what was recorded last; nil if nothing was.
	recorded atomic.Pointer[process.Shown]
	// recordedAt is the time of the last record, in Unix milliseconds; 0 if there is none.
	recordedAt atomic.Int64
	// watched says that there is a watch on the instance. part is which relist looks at it all the same.
	watched atomic.Bool
	part    int

	// The fields below belong to the goroutine of run.
	proc         story.Process
	savedHistory record.History
	timer        machineTimer
	runLimit     runLimit
	work         work
	watchState   watchState
	// place is the place in the host's budget that a relaunch waits for; nil if no relaunch waits.
	place *budget.Place
	// leaveOrder ends the wait for a change of the processes that this one is after; nil if it never waited.
	leaveOrder func()
	// sent is the last signal of an operation, until the process has ended; nil if there is none.
	sent *sentSignal
	// signalling is when the signal under way began that passes other work, in Unix milliseconds; 0 if there is none.
	signalling int64
	// lastEventAt is the time of the last event, in Unix milliseconds.
	lastEventAt int64
	denials     policyDenials
	// asked tells that a person has asked for the next relaunch.
	asked   bool
	awaited readiness
	// saidAt is when the last text of the process was taken over, since boot. saidTimer takes over the next one.
	saidAt    time.Duration
	saidTimer machineTimer
	claims    claimState
	keptEnd   keptEnd
	// comparing is closed when the comparison of the configuration files is over; nil while none is under way.
	comparing chan struct{}
}

// work is what holds the process: an operation, a relaunch, or an end by policy.
type work struct {
	// since is when the last work began, in Unix milliseconds.
	since int64
	// prior is the state before the last operation.
	prior lifecycle.State
	// entry is the operation under way; nil for a hold and for work that drover does by itself.
	entry *record.Entry
	// registers is the record that the operation stores only when it ends; nil if there is a record, or will be none.
	registers *record.Record
	// show ends the time in which the server is not told of the operation; nil if it is told.
	show *time.Timer
	// runtime is that of the instance that the operation checks; nil if there is none.
	runtime *record.Runtime
	// cancel ends the work early, nil if nothing can; killed says that a kill has called it.
	cancel context.CancelCauseFunc
	killed bool
	// endPreparation ends what comes before the command of a start; nil if there is no such work.
	endPreparation context.CancelCauseFunc
	// waits says what the operation waits for before it begins.
	waits string
	// endCheck ends the check early when closed; nil if there is no check to end, or if it is closed already.
	endCheck chan struct{}
}

func (s *Supervisor) newRunner(id process.ID, rec *record.Record) *runner {
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

// run is one turn of the runner: it handles everything that has arrived. It returns when nothing is left to do, when
// ctx ends, or when the process is unknown.
func (r *runner) run(ctx context.Context) {
	if r.proc.Machine.State == "" {
		r.begin(ctx)
	}
	for ctx.Err() == nil {
		waits := r.sup.waits() // read this first: the server's records arrive before the wait ends
		r.reconcile(ctx)
		if !waits && r.proc.Machine.Awaits == lifecycle.Confirmation {
			r.step(ctx, lifecycle.Confirmed{})
		}
		begins := func(t *task, first bool) bool { return !waits && r.admits(t, first) }
		for t, ok := r.next(begins); ok; t, ok = r.next(begins) {
			r.start(ctx, t)
		}
		r.preempt()
		if !r.proc.Machine.Busy() {
			r.forgetWork()
		}
		if !r.proc.Machine.Busy() && r.signalling == 0 && r.proc.Record == nil && r.sup.retire(r) {
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

// queryPatience is how long a query waits for older operations. Then drover answers it with the current state.
const queryPatience = 5 * time.Second

// admits reports whether a task may begin. A query waits for older operations, so that it shows their effect, but at
// most queryPatience. It waits neither for a check nor for work that drover does by policy. A signal passes a start
// whose process runs. Until that signal has been sent, only a kill begins.
func (r *runner) admits(t *task, first bool) bool {
	switch {
	case t.hold == nil && t.entry.Op == process.Query:
		free := first && r.proc.Machine.Awaits != lifecycle.Operation
		return free || time.Since(t.queued) >= queryPatience
	case r.signalling != 0 && (t.hold != nil || t.entry.Op != process.Kill):
		return false
	}
	return !r.proc.Machine.Busy() || r.passes(t)
}

// passes reports whether a task is a signal that is sent beside the work under way, because the process of that work
// runs: the instance that a start checks, or the one that a stop waits for. A signal never goes to the instance that a
// restart command is to replace.
func (r *runner) passes(t *task) bool {
	if t.hold != nil || t.entry.Op.Name() != process.Signal || !r.proc.Machine.Busy() {
		return false
	}
	p := r.public()
	if p.Record == nil || p.Runtime.Process == nil || r.work.runtime == nil && r.replaces() {
		return false
	}
	alive, _ := r.sup.operator.Processes.Glance(*p.Runtime.Process)
	return alive
}

// replaces reports whether a restart command is under way.
func (r *runner) replaces() bool {
	e := r.work.entry
	if e == nil || e.Op.Name() != process.Restart {
		return false
	}
	spec := operation.SpecInForce(*e, operation.Subject{Record: r.proc.Record})
	return spec != nil && spec.RestartCommand() != ""
}

// endsRelaunch reports whether an operation of drover's own API ends a relaunch under way, because the process shall
// not run. Any other operation waits for this relaunch, and goes before the next: callers of GSE and JOB know
// that a stop waits for commands.
func endsRelaunch(e *record.Entry) bool { return e.Ordered && e.Op.Info().Ends }

// preempt lets queued tasks interrupt the work under way: a kill ends the work, a stop or unhost hurries it. It
// sets a timer that wakes the runner for a waiting query.
func (r *runner) preempt() {
	r.eachWaiting(func(t *task) {
		switch {
		case !r.proc.Machine.Busy() || t.hold != nil:
		case t.entry.Op == process.Kill && r.work.cancel != nil && !t.begun:
			t.overtook = t.overtook || !r.work.killed && r.work.entry != nil && r.work.entry.Op != process.Kill
			r.work.killed = true
			r.work.cancel(operation.EndedBy(&t.entry))
		case r.proc.Machine.Awaits == lifecycle.Launch && endsRelaunch(&t.entry) && r.work.cancel != nil:
			r.work.cancel(operation.EndedBy(&t.entry))
		case t.entry.Op == process.Stop || t.entry.Op == process.Unhost:
			r.hurry(&t.entry)
		case t.entry.Op == process.Query && !t.timed:
			t.timed = true
			time.AfterFunc(queryPatience-time.Since(t.queued), r.wake)
		}
	})
}

// forgetWork drops what only the work under way needs, with the spec of its operation: most processes rest for long.
func (r *runner) forgetWork() { r.work = work{since: r.work.since, prior: r.work.prior} }

// hurry ends the check under way for a stop or unhost. A stop of drover's own API also ends a before_start command;
// callers of GSE and JOB know that it waits for commands.
func (r *runner) hurry(e *record.Entry) {
	if e.Op == process.Stop && e.Ordered && r.work.endPreparation != nil {
		r.work.endPreparation(operation.EndedBy(e))
	}
	if r.work.endCheck != nil {
		close(r.work.endCheck)
		r.work.endCheck = nil
	}
}

// stopTimers drops the watch, the timer and the place in the budget after the last turn of a runner.
func (r *runner) stopTimers() {
	r.stopWatch()
	r.awaited.stop()
	r.saidTimer.disarm()
	r.timer.disarm()
	r.runLimit.disarm()
	r.leaveBudget()
}

// begin handles the process for the first time in this life of the agent.
func (r *runner) begin(ctx context.Context) {
	var actions []lifecycle.Action
	attempts := r.proc.Runtime.Attempts
	waits := r.proc.Runtime.Process == nil && r.proc.Runtime.RetryAt == 0
	if attempts > 0 && waits && !r.sup.operator.Relaunching(r.id) {
		attempts-- // the earlier agent ended before its last relaunch had begun
	}
	if r.proc.Record != nil && r.proc.Record.GivenUp {
		attempts = max(attempts, r.proc.Record.Spec.Restarts().GiveUpAfter)
	}
	r.proc.Machine, actions = lifecycle.New(attempts, r.proc.Runtime.LaunchedAt, r.proc.Runtime.RetryAt)
	if r.proc.Record == nil {
		r.proc.Machine, _ = r.proc.Machine.Step(r.policy(), lifecycle.NotFound{}, r.now())
		r.publish()
		return
	}
	if r.sup.operator.Relaunching(r.id) {
		// An earlier agent ended in the middle of a relaunch: wait for its command, do not run it again.
		if r.sup.operator.EndUnstored(r.id, &r.proc.Runtime) {
			r.endedBefore()
		}
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
		// The operation of an earlier agent continues first, and its end decides what follows: an apparent crash may
		// be the operation's own work.
		r.publish()
		return
	}
	r.perform(ctx, actions)
}
