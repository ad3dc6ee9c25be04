package supervisor

import (
	"cmp"
	"context"
	"errors"
	goruntime "runtime"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// relaunchWithin begins a relaunch if the budget of the host has room, or the relaunch has its place in it. A run of a
// timetable needs none.
func (r *runner) relaunchWithin(ctx context.Context, a lifecycle.Relaunch) {
	if a.Resumed {
		r.relaunch(ctx, r.sup.operator.ResumeRelaunch, false)
		return
	}
	r.cancelPlace = nil
	if r.proc.Record.Spec.Policy.Kind == process.Resident {
		if r.mayNotStart() {
			until := r.now() + askAgain
			r.post(func(ctx context.Context, r *runner) { r.step(ctx, lifecycle.PutOff{Until: until}) })
			return
		}
		if !a.Placed {
			if wait, giveBack := r.sup.budget.reserve(r.now()); wait > 0 {
				r.cancelPlace = giveBack
				until := r.now() + wait
				r.post(func(ctx context.Context, r *runner) { r.step(ctx, lifecycle.HeldBack{Until: until}) })
				return
			}
		}
		tally := lifecycle.Tally{Relaunches: r.proc.Runtime.Relaunches}.Relaunched(r.sup.cfg.Bounds, r.now())
		r.proc.Runtime.Relaunches = tally.Relaunches
		r.proc.Runtime.Restarts++
	}
	r.relaunch(ctx, r.sup.operator.Relaunch, r.rebooted())
}

// leaveBudget gives back the place that is waited for; one that was taken is used up.
func (r *runner) leaveBudget() {
	if r.cancelPlace != nil {
		r.cancelPlace(r.now())
		r.cancelPlace = nil
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
	// Also where an earlier agent died before it had noted that: what it was ending has gone.
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
	// The relaunch goes first; what this goroutine has to write down can be done meanwhile by another thread.
	goruntime.Gosched()
}

// relaunchEnded takes in what came of a relaunch, and notes it before its progress is dropped: a successor of this
// agent must find one or the other.
func (r *runner) relaunchEnded(ctx context.Context, after operation.After, err error) {
	attempts := r.proc.Machine.Attempts
	note, why := r.proc.Runtime.Note, r.proc.Cause()
	tallied := r.proc.Runtime
	r.proc.Runtime = after.Runtime
	r.proc.Runtime.Relaunches, r.proc.Runtime.Restarts = tallied.Relaunches, tallied.Restarts
	r.tellLeftovers(after.Ended, story.Policy())
	if (process.CauseOf(err) == process.CauseFileHangs || errors.Is(err, instance.ErrUnrecorded)) &&
		r.proc.Record.Spec.Policy.Kind == process.Resident {
		r.putOff(ctx, err, why)
		return
	}
	if err != nil {
		line, rest := story.Headline("relaunch "+strconv.Itoa(attempts)+" failed: ", err)
		r.proc.Blame(time.Now(), causeOf(err), line)
		r.proc.Runtime.Cause.Evidence = rest
		cause := r.proc.Cause()
		// Before the step, which may begin the next relaunch.
		r.storeRuntime(r.proc.Runtime)
		r.sup.operator.Relaunched(r.id)
		r.sup.cfg.Log.Warn("relaunch failed", "process", r.id, "attempt", attempts, "error", err)
		r.stepAndTell(ctx, lifecycle.LaunchFailed{}, func(c story.Change) []process.Event {
			return r.proc.RelaunchFailed(c, attempts, cause)
		})
		return
	}
	pid := r.proc.Runtime.Process.PID
	r.proc.Runtime.Cause = process.Cause{}
	switch {
	case r.proc.Runtime.Outside:
		r.proc.BlameOutside(time.Now(), note)
	case r.proc.Record.Spec.Policy.Kind == process.Periodic:
		due := r.proc.History.Due.Format(time.RFC3339)
		r.proc.Runtime.Note = "the run of " + due + " is under way as pid " + strconv.Itoa(pid)
	default:
		r.proc.Runtime.Note = story.Join(note, "relaunched as pid "+strconv.Itoa(pid))
	}
	r.sup.cfg.Log.Info("process relaunched", "process", r.id, "pid", pid, "attempt", attempts,
		"outside", r.proc.Runtime.Outside)
	r.stepAndTell(ctx, lifecycle.Launched{}, func(c story.Change) []process.Event {
		return r.proc.Relaunched(c, attempts, why)
	})
	r.sup.operator.Relaunched(r.id)
}

// putOffTime is how long a relaunch waits for a file system that does not answer, or for room on the agent's disk.
const putOffTime = 30 * time.Second

// putOff has a relaunch wait that could not be tried because nobody can tell whether the process runs, or could tell
// later whether it was launched: it counts for nothing. before is what was known until then; that it is put off again
// is not told again.
func (r *runner) putOff(ctx context.Context, hindrance error, before process.Cause) {
	if n := len(r.proc.Runtime.Relaunches); n > 0 {
		r.proc.Runtime.Relaunches = r.proc.Runtime.Relaunches[:n-1]
	}
	r.proc.Runtime.Restarts = max(r.proc.Runtime.Restarts-1, 0)
	attempts := r.proc.Machine.Attempts
	r.proc.Blame(time.Now(), causeOf(hindrance), "relaunch delayed: "+hindrance.Error())
	cause := r.proc.Cause()
	r.storeRuntime(r.proc.Runtime)
	r.sup.operator.Relaunched(r.id)
	r.stepAndTell(ctx, lifecycle.PutOff{Until: r.now() + putOffTime}, func(c story.Change) []process.Event {
		if before.ID == cause.ID {
			return nil
		}
		r.sup.cfg.Log.Warn("relaunch postponed", "process", r.id, "error", hindrance)
		return r.proc.RelaunchFailed(c, attempts, cause)
	})
}

// causeOf returns the cause of a failed start.
func causeOf(err error) process.CauseID {
	return cmp.Or(process.CauseOf(err), process.CauseCommandFailed)
}

// budget is how many relaunches the host bears. Places in it are given out in the order in which they are asked for, so
// that nobody waits for ever; an operation needs none.
type budget struct{ limiter *rate.Limiter }

func newBudget(burst int, perSecond float64) *budget {
	return &budget{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// moment makes a time since boot one that the limiter can reckon with.
func moment(sinceBoot time.Duration) time.Time { return time.Unix(0, 0).Add(sinceBoot) }

// reserve takes a place and returns how long to wait for it, and how to give it back unused.
func (b *budget) reserve(now time.Duration) (wait time.Duration, giveBack func(now time.Duration)) {
	place := b.limiter.ReserveN(moment(now), 1)
	return place.DelayFrom(moment(now)), func(now time.Duration) { place.CancelAt(moment(now)) }
}

// spare takes a place if there is one now.
func (b *budget) spare(now time.Duration) bool { return b.limiter.AllowN(moment(now), 1) }
