package supervisor

import (
	"cmp"
	"context"
	"errors"
	goruntime "runtime"
	"strconv"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// relaunchWithin begins a relaunch if the budget of the host allows it now, or if the relaunch already has its place
// in the budget. A run of a timetable needs no place. Package lifecycle has decided that the process is relaunched.
func (r *runner) relaunchWithin(ctx context.Context, a lifecycle.Relaunch) {
	if a.Resumed {
		r.relaunch(ctx, r.sup.operator.ResumeRelaunch, false)
		return
	}
	spec := &r.proc.Record.Spec
	if spec.Kind() == process.Periodic && len(r.sup.afterStart(r.id, spec).unmet) > 0 {
		r.post(func(ctx context.Context, r *runner) {
			r.step(ctx, lifecycle.PutOff{})
			r.beginRun(ctx)
		})
		return
	}
	if spec.Kind() == process.Resident {
		// What somebody asks for goes before another attempt that drover makes by itself.
		if r.proc.Machine.Attempts > 1 && r.operationPending() {
			until := r.now()
			r.post(func(ctx context.Context, r *runner) { r.step(ctx, lifecycle.PutOff{Until: until}) })
			return
		}
		if r.keepsOrder() && r.heldByOrder() {
			r.post(func(ctx context.Context, r *runner) {
				r.step(ctx, lifecycle.Held{})
				r.lookAgain(ctx) // a change before the step has woken nobody
			})
			return
		}
		if r.mayNotStart() {
			until := r.now() + askAgain
			r.post(func(ctx context.Context, r *runner) { r.step(ctx, lifecycle.PutOff{Until: until}) })
			return
		}
		asked := r.asked
		r.asked = false
		if text, open := r.withheld(); open && !asked {
			r.blameBreaker(text)
			until := r.now() + spread(askAgain)
			r.post(func(ctx context.Context, r *runner) { r.step(ctx, lifecycle.PutOff{Until: until}) })
			return
		}
		if !a.Placed || r.place != nil {
			if r.place == nil {
				r.place = r.sup.budget.Enter(r.id.Namespace, r.justGood())
			}
			if wait := r.sup.budget.Turn(r.place, r.now()); wait > 0 {
				until := r.now() + wait
				r.post(func(ctx context.Context, r *runner) { r.step(ctx, lifecycle.HeldBack{Until: until}) })
				return
			}
			r.place = nil
		}
		if !r.proc.Runtime.Waited {
			tally := lifecycle.Tally{Relaunches: r.proc.Runtime.Relaunches}.Relaunched(r.sup.cfg.Bounds, r.now())
			r.proc.Runtime.Relaunches = tally.Relaunches
			r.proc.Runtime.Restarts++
		}
	}
	r.relaunch(ctx, r.sup.operator.Relaunch, r.rebooted())
}

// justGood reports whether the process has ended after a run that had restored its own budget.
func (r *runner) justGood() bool {
	rt := &r.proc.Runtime
	return r.proc.Machine.Attempts <= 1 && rt.LastExit != nil &&
		time.Duration(rt.LastExit.At-rt.LastStartAt*1000)*time.Millisecond >= r.sup.cfg.HealthyAfter
}

// leaveBudget gives up the place that a relaunch waits for.
func (r *runner) leaveBudget() {
	if r.place != nil {
		r.sup.budget.Leave(r.place)
		r.place = nil
	}
}

// relaunch begins or continues a relaunch in a goroutine of its own. After a reboot only BootStarts relaunches run at
// the same time.
func (r *runner) relaunch(
	ctx context.Context,
	do func(context.Context, record.Record, record.Runtime) (operation.After, error),
	queued bool,
) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.hold()
	r.proc.Relaunching()
	r.pardonBreaker()
	r.work.cancel = cancel
	ctx, r.work.endPreparation = operation.Stoppable(ctx)
	// An earlier agent may have died before it recorded the end by policy. The instance that it was ending is gone.
	r.proc.Runtime.Ending = nil
	rec, rt := *r.proc.Record, r.proc.Runtime
	r.sup.goroutines.spawn(func() {
		defer cancel(nil)
		if queued {
			select {
			case r.sup.bootSlots <- struct{}{}:
				defer func() { <-r.sup.bootSlots }()
			case <-ctx.Done():
			}
		}
		after, err := operation.After{Runtime: rt}, operation.Interruption(ctx)
		if err == nil {
			after, err = do(ctx, rec, rt)
		}
		if errors.Is(err, operation.ErrInterrupted) {
			return
		}
		r.post(func(ctx context.Context, r *runner) { r.relaunchEnded(ctx, after, err) })
	})
	// Yield, so that the relaunch goes first. Another thread can meanwhile do this goroutine's bookkeeping.
	goruntime.Gosched()
}

// relaunchEnded records the result of a relaunch before it drops the relaunch's progress: the next agent must find one
// of the two.
func (r *runner) relaunchEnded(ctx context.Context, after operation.After, err error) {
	attempts := r.proc.Machine.Attempts
	note, why := r.proc.Runtime.Note, r.proc.Cause()
	tallied := r.proc.Runtime
	r.proc.Runtime = after.Runtime
	r.proc.Runtime.Relaunches, r.proc.Runtime.Restarts = tallied.Relaunches, tallied.Restarts
	r.proc.Runtime.Failing, r.proc.Runtime.FailingBy = tallied.Failing, tallied.FailingBy
	r.noteAttempts()
	r.tellLeftovers(after.Ended, story.Policy())
	if (process.CauseOf(err) == process.CauseFileHangs || errors.Is(err, instance.ErrUnrecorded)) &&
		r.proc.Record.Spec.Kind() == process.Resident {
		r.putOff(ctx, err, why)
		return
	}
	late := r.proc.Runtime.Waited
	r.proc.Runtime.Waited = false
	if err != nil {
		line, rest := story.Headline("relaunch "+strconv.Itoa(attempts)+" failed: ", err)
		r.proc.Blame(time.Now(), causeOf(err), line)
		r.proc.Runtime.Cause.Evidence = rest
		cause := r.proc.Cause()
		r.sup.cfg.Log.Warn("relaunch failed", "process", r.id, "attempt", attempts, "error", err)
		var failed lifecycle.Event = lifecycle.LaunchFailed{Forbidden: r.endedForGood(tallied.LastExit)}
		if cause.ID == process.CauseStopped { // what has ended it comes before the next one
			failed = lifecycle.PutOff{Until: r.now() + putOffTime}
		}
		r.tellAndStep(ctx, failed, func(c story.Change) []process.Event {
			return r.proc.RelaunchFailed(c, attempts, cause)
		}, r.failureStored)
		return
	}
	if r.upAtOnce() {
		r.proc.Runtime.Unready = nil
	}
	pid := r.proc.Runtime.Process.PID
	r.proc.Runtime.Cause = process.Cause{}
	switch {
	case r.proc.Runtime.Outside:
		r.proc.BlameOutside(time.Now(), note)
	case r.proc.Record.Spec.Kind() == process.Periodic:
		due := r.proc.History.Due.Format(time.RFC3339)
		r.proc.Runtime.Note = "the run of " + due + " is under way as pid " + strconv.Itoa(pid)
	case late:
		r.proc.Runtime.Note = "started as pid " + strconv.Itoa(pid)
	default:
		r.proc.Runtime.Note = story.Join(note, "relaunched as pid "+strconv.Itoa(pid))
		if why.ID != "" { // otherwise somebody has asked for another try
			r.proc.Runtime.Cause = process.Cause{
				ID: process.CauseRelaunched, Since: time.Now().UnixMilli(), Evidence: why.Evidence,
			}
		}
	}
	r.sup.cfg.Log.Info("process relaunched", "process", r.id, "pid", pid, "attempt", attempts,
		"outside", r.proc.Runtime.Outside)
	r.stepAndTell(ctx, lifecycle.Launched{}, func(c story.Change) []process.Event {
		if late && !r.proc.Runtime.Outside {
			return r.proc.StartedLate(c)
		}
		return r.proc.Relaunched(c, attempts, why)
	})
	r.sup.operator.Relaunched(r.id)
}

// briefly is the longest ready.alive that a relaunch does not wait for while nobody else waits for the process.
const briefly = time.Second

// upAtOnce reports whether the process that has just been relaunched counts as up already, which saves it a timer and
// two reports. A process that others are after must first stay up: one that crashes at once is never ready.
func (r *runner) upAtOnce() bool {
	u := r.proc.Runtime.Unready
	return u != nil && !r.proc.Record.Spec.AsksReady() && u.Limit-u.From <= briefly &&
		len(r.sup.order.dependentsOf(r.id)) == 0
}

// putOffTime is how long a relaunch waits for a file system that hangs, or for space on the agent's disk.
const putOffTime = 30 * time.Second

// putOff postpones a relaunch that could not be tried: drover cannot tell whether the process runs, or could not
// record the launch. The attempt does not count. before is the cause until then; putOff does not report the same cause
// twice.
func (r *runner) putOff(ctx context.Context, hindrance error, before process.Cause) {
	if n := len(r.proc.Runtime.Relaunches); n > 0 {
		r.proc.Runtime.Relaunches = r.proc.Runtime.Relaunches[:n-1]
	}
	r.proc.Runtime.Restarts = max(r.proc.Runtime.Restarts-1, 0)
	attempts := r.proc.Machine.Attempts
	r.proc.Blame(time.Now(), causeOf(hindrance), "relaunch delayed: "+hindrance.Error())
	cause := r.proc.Cause()
	r.tellAndStep(ctx, lifecycle.PutOff{Until: r.now() + putOffTime}, func(c story.Change) []process.Event {
		if before.ID == cause.ID {
			return nil
		}
		r.sup.cfg.Log.Warn("relaunch postponed", "process", r.id, "error", hindrance)
		return r.proc.RelaunchFailed(c, attempts, cause)
	}, r.failureStored)
}

// failureStored stores the failure of a relaunch, and when the next one is due, before that one may begin and count.
func (r *runner) failureStored() {
	rt, m := &r.proc.Runtime, &r.proc.Machine
	rt.Attempts, rt.RetryAt = min(rt.Attempts, m.Attempts), m.RetryAt
	r.storeRuntime(*rt)
	r.sup.operator.Relaunched(r.id)
}

// causeOf returns the cause of a failed start.
func causeOf(err error) process.CauseID {
	return cmp.Or(process.CauseOf(err), process.CauseCommandFailed)
}
