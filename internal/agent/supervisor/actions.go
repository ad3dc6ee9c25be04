package supervisor

import (
	"context"
	"errors"
	"log/slog"
	goruntime "runtime"
	"strconv"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/operation"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (r *runner) now() time.Duration { return r.sup.cfg.Operator.Clock() }

func (r *runner) policy() lifecycle.Policy {
	p := lifecycle.Policy{HealthyAfter: r.sup.cfg.HealthyAfter}
	if r.record != nil {
		spec := r.record.Spec.Policy
		p.Hosted, p.Kind, p.Retries = r.record.Hosted, spec.Kind, spec.StartRetries
		p.Interval = time.Duration(spec.StartInterval) * time.Second
		p.Overlap, p.GivenUp = r.record.Spec.Schedule.Overlap, r.record.GivenUp
	}
	return p
}

// step feeds the machine one event, does what it asks for, and lets others see the new state.
func (r *runner) step(ctx context.Context, ev lifecycle.Event) {
	r.stepAndTell(ctx, ev, func(lifecycle.State, lifecycle.State) {})
}

// stepAndTell is step for an event that tell puts into the log and the history, once the new state is known. A relaunch waits
// neither for that nor for the disk.
func (r *runner) stepAndTell(ctx context.Context, ev lifecycle.Event, tell func(from, to lifecycle.State)) {
	before := r.machine
	next, actions := r.machine.Step(r.policy(), ev, r.now())
	r.machine = next
	r.perform(ctx, actions)
	tell(before.State, next.State)
	if next.State != before.State {
		level := slog.LevelInfo
		if next.State == lifecycle.Operating || before.State == lifecycle.Operating {
			level = slog.LevelDebug // the end of the operation is told
		}
		r.sup.cfg.Log.Log(ctx, level, "state changed", "process", r.id, "from", before.State, "to", next.State)
	}
	r.runtime.Attempts, r.runtime.LaunchedAt, r.runtime.RetryAt = r.machine.Attempts, r.machine.LaunchedAt, r.machine.RetryAt
	r.follow(ctx)
	if r.record != nil {
		r.keep(r.runtime)
	}
	r.show()
}

// keep notes what is known of the instance. A failure is logged only: the disk may be full, and the work goes on.
func (r *runner) keep(rt specstore.Runtime) {
	if err := r.sup.cfg.Store.PutRuntime(r.id, rt); err != nil {
		r.sup.cfg.Log.Warn("state of process could not be noted", "process", r.id, "error", err)
	}
}

func (r *runner) perform(ctx context.Context, actions []lifecycle.Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case lifecycle.Look:
			r.firstLook(ctx)
		case lifecycle.Watch:
			r.watch()
		case lifecycle.Relaunch:
			r.launch(ctx, func(ctx context.Context) { r.relaunchWithin(ctx, a.Held) })
		case lifecycle.TakeDown:
			r.takeDown(ctx, r.sup.cfg.Operator.TakeDown)
		case lifecycle.Skip:
			r.skipped()
		case lifecycle.Arm:
			r.arm(a.Timer, a.After)
		case lifecycle.Disarm:
			r.disarm()
		case lifecycle.GiveUp:
			r.giveUp()
		}
	}
}

// rebooted reports whether nothing at all is known of this boot: the process was hosted before the host went down.
func (r *runner) rebooted() bool { return r.runtime.LastStartAt == 0 && r.machine.Attempts == 1 }

// firstLook sees what became of the process since the agent's last life.
func (r *runner) firstLook(ctx context.Context) {
	before := r.runtime.Process
	seen := r.look()
	r.sighted(seen)
	r.schedule()
	switch {
	case seen.Alive() && before != nil && *before == *seen.ID:
		r.step(ctx, lifecycle.Found{})
	case seen.Alive():
		r.stepAndTell(ctx, lifecycle.Found{}, r.tellFound)
	case before == nil:
		r.blameAbsence(seen, false)
		gone := end{why: r.cause()}
		r.stepAndTell(ctx, lifecycle.NotFound{}, func(from, to lifecycle.State) {
			if open := r.openRun(); open != nil { // the host went down with it
				gone.pid, gone.began = open.PID, open.Started/1000
				r.tellEnd(from, to, gone)
			}
		})
	default:
		r.runtime.LastExit = &process.Exit{At: time.Now().UnixMilli()}
		r.blameAbsence(seen, true)
		gone := end{pid: before.PID, why: r.cause(), run: r.runtime.Run, began: r.runtime.LastStartAt}
		r.stepAndTell(ctx, lifecycle.NotFound{}, func(from, to lifecycle.State) { r.tellEnd(from, to, gone) })
	}
	r.beginOwed(ctx)
}

// relaunchWithin begins a relaunch if the budget of the host has room, or the relaunch has its place in it. A run of a timetable
// needs none.
func (r *runner) relaunchWithin(ctx context.Context, held bool) {
	r.unplace = nil
	if r.record.Spec.Policy.Kind == process.Resident {
		if r.mayNotStart() {
			r.unbudgeted = true
			r.post(message{kind: heldBack, until: r.now() + askAgain})
			return
		}
		placed := (held || r.placed) && !r.unbudgeted
		r.placed, r.unbudgeted = false, false
		if !placed {
			if wait, giveBack := r.sup.budget.reserve(r.now()); wait > 0 {
				r.unplace = giveBack
				r.post(message{kind: heldBack, until: r.now() + wait})
				return
			}
		}
		tally := lifecycle.Tally{Relaunches: r.runtime.Relaunches}.Relaunched(r.sup.cfg.Bounds, r.now())
		r.runtime.Relaunches = tally.Relaunches
		r.runtime.Restarts++
	}
	r.relaunch(ctx, r.sup.cfg.Operator.Relaunch, r.rebooted())
}

// leaveBudget gives back the place that is waited for; one that was taken is used up.
func (r *runner) leaveBudget() {
	r.placed = false
	if r.unplace != nil {
		r.unplace(r.now())
		r.unplace = nil
	}
}

// relaunch begins a relaunch, or goes on with one, beside the goroutine of run. After a reboot only a few do so at a time.
func (r *runner) relaunch(
	ctx context.Context,
	do func(context.Context, specstore.Record, specstore.Runtime) (specstore.Runtime, error),
	queued bool,
) {
	r.hold()
	r.runtime.Ending = nil // also where an earlier agent died before it had noted that: what it was ending has gone
	rec, rt := *r.record, r.runtime
	r.sup.turns.beside(func() {
		if queued {
			select {
			case r.sup.bootSlots <- struct{}{}:
				defer func() { <-r.sup.bootSlots }()
			case <-ctx.Done():
				return
			}
		}
		after, err := do(ctx, rec, rt)
		if errors.Is(err, operation.ErrInterrupted) {
			return
		}
		r.post(message{kind: relaunched, runtime: after, err: err})
	})
	// The relaunch goes first; what this goroutine has to write down can be done meanwhile by another thread.
	goruntime.Gosched()
}

// relaunchEnded takes in what came of a relaunch, and notes it before its progress is dropped: a successor of this agent must find
// one or the other.
func (r *runner) relaunchEnded(ctx context.Context, m *message) {
	attempts := r.machine.Attempts
	note, why := r.runtime.Note, r.cause()
	tallied := r.runtime
	r.runtime = m.runtime
	r.runtime.Relaunches, r.runtime.Restarts = tallied.Relaunches, tallied.Restarts
	if process.CauseOf(m.err) == process.CauseFileHangs && r.record.Spec.Policy.Kind == process.Resident {
		r.putOff(ctx, m.err, why)
		return
	}
	if m.err != nil {
		r.blame(causeOf(m.err), "relaunch "+itoa(attempts)+" failed: "+m.err.Error())
		cause := r.cause()
		// Before the step, which may begin the next relaunch.
		r.keep(r.runtime)
		r.sup.cfg.Operator.Relaunched(r.id)
		r.sup.cfg.Log.Warn("relaunch failed", "process", r.id, "attempt", attempts, "error", m.err)
		r.stepAndTell(ctx, lifecycle.LaunchFailed{}, func(from, to lifecycle.State) { r.tellRelaunchFailed(from, to, attempts, cause) })
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
	r.sup.cfg.Log.Info("process is up again", "process", r.id, "pid", pid, "attempt", attempts, "outside", r.runtime.Outside)
	r.stepAndTell(ctx, lifecycle.Launched{}, func(from, to lifecycle.State) { r.tellRelaunched(from, to, attempts, why) })
	r.sup.cfg.Operator.Relaunched(r.id)
}

// putOffTime is how long a relaunch waits for a file system that does not answer.
const putOffTime = 30 * time.Second

// putOff has a relaunch wait that could not be tried because nobody can tell whether the process runs: it counts for nothing. before is
// what was known until then; that it is put off again is not told again.
func (r *runner) putOff(ctx context.Context, hindrance error, before process.Cause) {
	if n := len(r.runtime.Relaunches); n > 0 {
		r.runtime.Relaunches = r.runtime.Relaunches[:n-1]
	}
	r.runtime.Restarts = max(r.runtime.Restarts-1, 0)
	attempts := r.machine.Attempts
	r.blame(process.CauseFileHangs, "relaunch put off: "+hindrance.Error())
	cause := r.cause()
	r.keep(r.runtime)
	r.sup.cfg.Operator.Relaunched(r.id)
	r.stepAndTell(ctx, lifecycle.PutOff{Until: r.now() + putOffTime}, func(from, to lifecycle.State) {
		if before.ID != process.CauseFileHangs {
			r.sup.cfg.Log.Warn("relaunch was put off", "process", r.id, "error", hindrance)
			r.tellRelaunchFailed(from, to, attempts, cause)
		}
	})
}

func startedFromOutside(pid int) string { return "restarted from outside, pid " + itoa(pid) }

// giveUp remembers, over a reboot too, that the budget is spent.
func (r *runner) giveUp() {
	// Those that it has left do not count any more, also where it is given up for its breaches.
	r.machine.Attempts = max(r.machine.Attempts, r.record.Spec.Policy.StartRetries)
	rec := *r.record
	rec.GivenUp, rec.Rest = true, r.cause()
	if err := r.sup.cfg.Store.PutRecord(rec); err != nil {
		r.sup.cfg.Log.Error("given-up state could not be stored", "process", r.id, "error", err)
	}
	r.record = &rec
	r.sup.cfg.Log.Warn("process given up", "process", r.id, "attempts", r.machine.Attempts)
	r.schedule()
}

// show lets others see the state.
func (r *runner) show() {
	known := r.face.load().record != nil
	r.face.store(face{record: r.record, runtime: r.runtime, machine: r.machine, runs: r.history.Runs})
	if known || r.record != nil {
		r.sup.cfg.Sink.Changed(r.id)
	}
}
