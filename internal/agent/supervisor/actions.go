package supervisor

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (r *runner) now() time.Duration { return r.sup.operator.Clock() }

func (r *runner) policy() lifecycle.Policy {
	p := lifecycle.Policy{HealthyAfter: r.sup.cfg.HealthyAfter}
	if r.record != nil {
		spec := r.record.Spec.Policy
		p.Hosted, p.Kind, p.Retries = r.record.Hosted && r.claims.rival == 0, spec.Kind, spec.StartRetries
		p.Interval = time.Duration(spec.StartInterval) * time.Second
		p.Overlap, p.GivenUp = r.record.Spec.Schedule.Overlap, r.record.GivenUp
	}
	return p
}

// step feeds the machine one event, does what it asks for, and lets others see the new state.
func (r *runner) step(ctx context.Context, ev lifecycle.Event) {
	r.stepAndEmit(ctx, ev, func(lifecycle.State, lifecycle.State) {})
}

// stepAndEmit is step for an event that tell puts into the log and the history, once the new state is known. A relaunch
// waits neither for that nor for the disk.
func (r *runner) stepAndEmit(ctx context.Context, ev lifecycle.Event, tell func(from, to lifecycle.State)) {
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
	r.runtime.Attempts, r.runtime.LaunchedAt, r.runtime.RetryAt = r.machine.Attempts, r.machine.LaunchedAt,
		r.machine.RetryAt
	r.follow(ctx)
	if r.record != nil {
		r.storeRuntime(r.runtime)
	}
	r.publish()
}

// storeRuntime notes what is known of the instance. A failure is logged only: the disk may be full, and the work goes
// on.
func (r *runner) storeRuntime(rt specstore.Runtime) {
	if err := r.sup.cfg.Store.PutRuntime(r.id, rt); err != nil {
		r.sup.cfg.Log.Warn("cannot store state of process", "process", r.id, "error", err)
	}
}

// arm has the machine hear of a timer.
func (r *runner) arm(t lifecycle.Timer, after time.Duration) {
	r.timer.arm(after, func(number int) {
		r.post(func(ctx context.Context, r *runner) {
			if r.timer.isCurrent(number) {
				r.step(ctx, lifecycle.Fired{Timer: t})
			}
		})
	})
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
			r.takeDown(ctx, r.sup.operator.TakeDown)
		case lifecycle.Skip:
			r.skipped()
		case lifecycle.Arm:
			r.arm(a.Timer, a.After)
		case lifecycle.Disarm:
			r.timer.disarm()
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
		r.stepAndEmit(ctx, lifecycle.Found{}, func(from, to lifecycle.State) { r.emitFoundAfter(from, to, before) })
	case before == nil:
		r.blameAbsence(seen, nil)
		gone := processEnd{why: r.cause()}
		asked := r.takePendingStop(true)
		r.stepAndEmit(ctx, lifecycle.NotFound{}, func(from, to lifecycle.State) {
			if open := r.openRun(); open != nil { // the host went down with it
				gone.pid, gone.began = open.PID, open.Started/1000
				r.emitEndOf(from, to, gone, asked)
			}
		})
	default:
		r.runtime.LastExit = &process.Exit{At: time.Now().UnixMilli()}
		r.blameAbsence(seen, before)
		gone := r.withLastWords(processEnd{
			pid: before.PID, why: r.cause(), run: r.runtime.Run,
			began: r.runtime.LastStartAt,
		})
		asked := r.takePendingStop(true)
		r.stepAndEmit(ctx, lifecycle.NotFound{}, func(from, to lifecycle.State) { r.emitEndOf(from, to, gone, asked) })
		r.sweepAfter(ctx, asked)
	}
	r.beginOwed(ctx)
}

// giveUp remembers, over a reboot too, that the budget is spent.
func (r *runner) giveUp() {
	// Those that it has left do not count any more, also where it is given up for its breaches.
	r.machine.Attempts = max(r.machine.Attempts, r.record.Spec.Policy.StartRetries)
	rec := *r.record
	rec.GivenUp, rec.Rest = true, r.cause()
	if err := r.sup.cfg.Store.PutRecord(rec); err != nil {
		r.sup.cfg.Log.Error("cannot store given-up state", "process", r.id, "error", err)
	}
	r.record = &rec
	r.sup.cfg.Log.Warn("process given up", "process", r.id, "attempts", r.machine.Attempts)
	r.schedule()
}

// publish lets others see the state.
func (r *runner) publish() {
	known := r.shared.load().record != nil
	r.claim()
	f := snapshot{record: r.record, runtime: r.runtime, machine: r.machine, runs: r.history.Runs, rival: r.claims.rival}
	if r.work.busy {
		if f.active.since = r.work.since; r.work.entry != nil {
			f.active.op = r.work.entry.Op
		}
	}
	r.shared.store(f)
	r.sup.peers.put(r.id, marksOf(&f))
	if known || r.record != nil {
		r.sup.cfg.Sink.Changed(r.id)
	}
}
