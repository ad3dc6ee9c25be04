package supervisor

import (
	"context"
	"errors"
	goruntime "runtime"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// plannedRelaunch is the next relaunch.
type plannedRelaunch struct {
	// deferred begins the one that waits for the server's word; nil where none does.
	deferred func(context.Context)
	// reserved says that it has its place in the host's budget.
	reserved bool
	// cancel gives back the place that is waited for; nil where there is none.
	cancel func(now time.Duration)
}

// relaunchWithin begins a relaunch if the budget of the host has room, or the relaunch has its place in it. A run of a
// timetable needs none.
func (r *runner) relaunchWithin(ctx context.Context, held bool) {
	r.relaunching.cancel = nil
	if r.record.Spec.Policy.Kind == process.Resident {
		placed := held || r.relaunching.reserved
		r.relaunching.reserved = false
		if r.mayNotStart() {
			until := r.now() + askAgain
			r.post(func(ctx context.Context, r *runner) { r.step(ctx, lifecycle.PutOff{Until: until}) })
			return
		}
		if !placed {
			if wait, giveBack := r.sup.budget.reserve(r.now()); wait > 0 {
				r.relaunching.cancel = giveBack
				until := r.now() + wait
				r.post(func(ctx context.Context, r *runner) { r.step(ctx, lifecycle.HeldBack{Until: until}) })
				return
			}
		}
		tally := lifecycle.Tally{Relaunches: r.runtime.Relaunches}.Relaunched(r.sup.cfg.Bounds, r.now())
		r.runtime.Relaunches = tally.Relaunches
		r.runtime.Restarts++
	}
	r.relaunch(ctx, r.sup.operator.Relaunch, r.rebooted())
}

// leaveBudget gives back the place that is waited for; one that was taken is used up.
func (r *runner) leaveBudget() {
	r.relaunching.reserved = false
	if r.relaunching.cancel != nil {
		r.relaunching.cancel(r.now())
		r.relaunching.cancel = nil
	}
}

// relaunch begins a relaunch, or goes on with one, beside the goroutine of run. After a reboot only a few do so at a
// time.
func (r *runner) relaunch(
	ctx context.Context,
	do func(context.Context, specstore.Record, specstore.Runtime) (operation.After, error),
	queued bool,
) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.hold()
	r.work.cancel = cancel
	r.runtime.Ending = nil // also where an earlier agent died before it had noted that: what it was ending has gone
	rec, rt := *r.record, r.runtime
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
	// The relaunch goes first; what this goroutine has to write down can be done meanwhile by another thread.
	goruntime.Gosched()
}

// relaunchEnded takes in what came of a relaunch, and notes it before its progress is dropped: a successor of this
// agent must find one or the other.
func (r *runner) relaunchEnded(ctx context.Context, after operation.After, err error) {
	r.work.busy = false
	attempts := r.machine.Attempts
	note, why := r.runtime.Note, r.cause()
	tallied := r.runtime
	r.runtime = after.Runtime
	r.runtime.Relaunches, r.runtime.Restarts = tallied.Relaunches, tallied.Restarts
	r.emitLeftovers(after.Ended, byPolicy())
	if (process.CauseOf(err) == process.CauseFileHangs || errors.Is(err, instance.ErrUnrecorded)) &&
		r.record.Spec.Policy.Kind == process.Resident {
		r.putOff(ctx, err, why)
		return
	}
	if err != nil {
		line, rest := headlineOf("relaunch "+itoa(attempts)+" failed: ", err)
		r.blame(causeOf(err), line)
		r.runtime.Cause.Evidence = rest
		cause := r.cause()
		// Before the step, which may begin the next relaunch.
		r.storeRuntime(r.runtime)
		r.sup.operator.Relaunched(r.id)
		r.sup.cfg.Log.Warn("relaunch failed", "process", r.id, "attempt", attempts, "error", err)
		r.stepAndEmit(ctx, lifecycle.LaunchFailed{}, func(from, to lifecycle.State) {
			r.emitRelaunchFailed(from, to, attempts, cause)
		})
		return
	}
	pid := r.runtime.Process.PID
	r.runtime.Cause = process.Cause{}
	switch {
	case r.runtime.Outside:
		r.blame(process.CauseOutside, join(note, startedFromOutside(pid)))
	case r.record.Spec.Policy.Kind == process.Periodic:
		r.runtime.Note = "the run of " + r.history.Due.Format(time.RFC3339) + " is under way as pid " + itoa(pid)
	default:
		r.runtime.Note = join(note, "relaunched as pid "+itoa(pid))
	}
	r.sup.cfg.Log.Info("process relaunched", "process", r.id, "pid", pid, "attempt", attempts,
		"outside", r.runtime.Outside)
	r.stepAndEmit(ctx, lifecycle.Launched{}, func(from, to lifecycle.State) {
		r.emitRelaunched(from, to, attempts, why)
	})
	r.sup.operator.Relaunched(r.id)
}

// putOffTime is how long a relaunch waits for a file system that does not answer, or for room on the agent's disk.
const putOffTime = 30 * time.Second

// putOff has a relaunch wait that could not be tried because nobody can tell whether the process runs, or could tell
// later whether it was launched: it counts for nothing. before is what was known until then; that it is put off again
// is not told again.
func (r *runner) putOff(ctx context.Context, hindrance error, before process.Cause) {
	if n := len(r.runtime.Relaunches); n > 0 {
		r.runtime.Relaunches = r.runtime.Relaunches[:n-1]
	}
	r.runtime.Restarts = max(r.runtime.Restarts-1, 0)
	attempts := r.machine.Attempts
	r.blame(causeOf(hindrance), "relaunch delayed: "+hindrance.Error())
	cause := r.cause()
	r.storeRuntime(r.runtime)
	r.sup.operator.Relaunched(r.id)
	r.stepAndEmit(ctx, lifecycle.PutOff{Until: r.now() + putOffTime}, func(from, to lifecycle.State) {
		if before.ID != cause.ID {
			r.sup.cfg.Log.Warn("relaunch postponed", "process", r.id, "error", hindrance)
			r.emitRelaunchFailed(from, to, attempts, cause)
		}
	})
}

func startedFromOutside(pid int) string { return "restarted from outside, pid " + itoa(pid) }
