package supervisor

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

func (r *runner) now() time.Duration { return r.sup.operator.Clock() }

func (r *runner) policy() lifecycle.Policy {
	p := lifecycle.Policy{
		HealthyAfter: r.sup.cfg.HealthyAfter, Unconfirmed: r.sup.waits(), Unready: r.proc.Runtime.Unready != nil,
	}
	if r.proc.Record != nil {
		rec := r.proc.Record
		p.Hosted, p.Kind = rec.Hosted && r.claims.rival == 0 && !r.hasForeignSupervisor(), rec.Spec.Kind()
		p.Overlap, p.GivenUp, p.Finished = rec.Spec.Timetable().Overlap, rec.GivenUp, rec.Finished
		s := rec.Spec.Restarts()
		p.When, p.Retries, p.Factor = s.When, s.GiveUpAfter, s.Factor
		p.Interval, p.MaxInterval = s.Delay, s.MaxDelay
		p.Stretch = 1 + s.Jitter/100*(2*rand.Float64()-1) //nolint:gosec // it spreads relaunches
		if rec.Spec.OwnRestarts() {
			p.HealthyAfter = s.ResetAfter
		}
		if r.neverBegan() { // its next launch is no relaunch
			p.When, p.Retries = process.Always, 0
		}
	}
	return p
}

// exitOf is the event of an end, as the policy of relaunches judges it.
func (r *runner) exitOf(e *process.Exit) lifecycle.Exited {
	if r.proc.Record == nil {
		return lifecycle.Exited{}
	}
	success, forbidden := instance.Verdict(&r.proc.Record.Spec, e)
	return lifecycle.Exited{Success: success, Forbidden: forbidden}
}

// endedForGood reports whether the process has ended since an earlier end in a way that forbids a relaunch.
func (r *runner) endedForGood(earlier *process.Exit) bool {
	last := r.proc.Runtime.LastExit
	return last != nil && last != earlier && r.exitOf(last).Forbidden
}

// step gives the machine one event, performs the actions that the machine returns, and publishes the new state.
func (r *runner) step(ctx context.Context, ev lifecycle.Event) {
	r.stepAndTell(ctx, ev, func(story.Change) []process.Event { return nil })
}

// stepAndTell is step with a function that makes events once the new state is known. A relaunch waits neither for
// these events nor for the disk.
func (r *runner) stepAndTell(ctx context.Context, ev lifecycle.Event, tell func(story.Change) []process.Event) {
	before := r.proc.Machine
	next, actions := r.proc.Machine.Step(r.policy(), ev, r.now())
	r.proc.Machine = next
	r.perform(ctx, actions)
	r.tellChange(before, tell)
	r.stepped(ctx, before)
}

// tellAndStep is stepAndTell for a change that is recorded before the actions that follow from it. The events come
// before the record: if the agent dies between the two, the next agent comes to the same events, and knows them again.
func (r *runner) tellAndStep(
	ctx context.Context, ev lifecycle.Event, tell func(story.Change) []process.Event, record func(),
) {
	before := r.proc.Machine
	next, actions := r.proc.Machine.Step(r.policy(), ev, r.now())
	r.proc.Machine = next
	r.tellChange(before, tell)
	record()
	r.perform(ctx, actions)
	r.stepped(ctx, before)
}

// tellChange tells of the change from an earlier state.
func (r *runner) tellChange(before lifecycle.Machine, tell func(story.Change) []process.Event) {
	events := tell(story.Change{From: before.State, To: r.proc.Machine.State, Now: time.Now(), Uptime: r.now()})
	r.saveHistory()
	r.tell(events...)
}

// stepped follows and stores the new state.
func (r *runner) stepped(ctx context.Context, before lifecycle.Machine) {
	next := r.proc.Machine
	if next.State != before.State {
		level := slog.LevelInfo
		if next.State == lifecycle.Operating || before.State == lifecycle.Operating {
			level = slog.LevelDebug // another event reports the end of the operation
		}
		r.sup.cfg.Log.Log(ctx, level, "state changed", "process", r.id, "from", before.State, "to", next.State)
	}
	if next.Awaits != lifecycle.Budget && next.Awaits != lifecycle.Launch {
		r.leaveBudget() // it runs, or somebody wants something else
	}
	r.noteAttempts()
	if rt := &r.proc.Runtime; rt.Attempts == 0 {
		rt.Failing = 0
		if rt.Cause.ID == process.CauseRelaunched { // the run has lasted
			rt.Cause = process.Cause{}
		}
	} else if rt.Failing == 0 {
		rt.Failing = time.Now().UnixMilli()
	}
	r.follow(ctx)
	r.limitRun()
	r.awaitForeignSuccessor(before.State == lifecycle.Running && r.proc.Runtime.Cause.ID != process.CauseUnseen)
	kept := r.proc.Runtime.ForeignSupervisor != nil // the other supervisor may start it again
	if r.sup.cfg.Remains != nil && next.AtRest() && r.proc.Runtime.Process == nil && !kept {
		r.sup.cfg.Remains.AtRest(r.id)
	}
	if r.proc.Record != nil {
		r.storeRuntime(r.proc.Runtime)
	}
	r.publish()
	if run := r.socketRun(); run != "" && before.State != lifecycle.Running {
		r.takeNotice(ctx, run) // what it has said meanwhile reached nobody
	}
}

// noteAttempts notes in the runtime what the machine has counted.
func (r *runner) noteAttempts() {
	rt, m := &r.proc.Runtime, &r.proc.Machine
	rt.Attempts, rt.LaunchedAt, rt.RetryAt = m.Attempts, m.LaunchedAt, m.RetryAt
}

// storeRuntime stores the runtime of the process. It only logs a failure: the disk may be full, and the work goes on.
func (r *runner) storeRuntime(rt record.Runtime) {
	if err := r.sup.cfg.Store.PutRuntime(r.id, rt); err != nil {
		r.sup.cfg.Log.Warn("cannot store state of process", "process", r.id, "error", err)
	}
}

// arm starts the timer of the machine.
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
			r.relaunchWithin(ctx, a)
		case lifecycle.TakeDown:
			r.takeDown(ctx, r.sup.operator.TakeDown)
		case lifecycle.Skip:
			r.skipped("")
		case lifecycle.Arm:
			r.arm(a.Timer, a.After)
		case lifecycle.Disarm:
			r.timer.disarm()
		case lifecycle.GiveUp:
			r.giveUp()
		case lifecycle.Finish:
			r.finish()
		}
	}
}

// rebooted reports whether the agent knows nothing from this boot: the process was hosted before the host went down.
func (r *runner) rebooted() bool {
	return r.proc.Runtime.LastStartAt == 0 && r.proc.Machine.Attempts == 1
}

// firstLook finds out what happened to the process while no agent ran.
func (r *runner) firstLook(ctx context.Context) {
	before := r.proc.Runtime.Process
	seen := r.lookAround()
	r.recordSighting(seen)
	r.schedule()
	switch {
	case seen.Alive() && before != nil && *before == *seen.ID:
		r.step(ctx, lifecycle.Found{})
	case seen.Alive():
		r.followNewInstance(ctx, before)
	case before == nil:
		r.proc.BlameAbsence(time.Now(), seen, nil)
		gone := story.End{Why: r.proc.Cause()}
		asked, givenUp := r.takePendingStop(true), r.proc.Record.GivenUp
		r.stepAndTell(ctx, lifecycle.NotFound{}, func(c story.Change) []process.Event {
			open := r.proc.OpenRun()
			if open == nil && givenUp {
				return nil
			}
			if open == nil {
				return r.proc.GivenUp(c) // an earlier agent has counted the last start, and could not begin it
			}
			gone.PID, gone.Began = open.PID, open.Started/1000 // the run ended when the host went down
			return r.proc.Ended(c, gone, asked)
		})
	default:
		r.proc.Runtime.LastExit = &process.Exit{At: time.Now().UnixMilli()}
		r.proc.BlameAbsence(time.Now(), seen, before)
		r.goneUnseen(ctx, before.PID, true)
	}
	r.beginOwed(ctx)
}

// lookAround is look that also finds a run that is not on record, so that no second one is started beside it.
func (r *runner) lookAround() instance.Sighting {
	seen := r.find()
	if seen.Alive() || r.proc.Record == nil || !r.proc.Record.Hosted {
		return seen
	}
	c := r.sup.operator.Unrecorded(r.id, &r.proc.Record.Spec, r.proc.Runtime)
	if c == nil {
		return seen
	}
	r.proc.Clear()
	r.proc.Runtime.Note = "drover started pid " + strconv.Itoa(c.ID.PID) + ", and its disk has no record of that"
	r.proc.Runtime.LastStartAt = c.Since.Unix()
	return instance.Sighting{ID: &c.ID, Matches: 1, Run: c.Run}
}

// giveUp records that the retries are used up. The record survives a reboot.
func (r *runner) giveUp() {
	// Unused retries no longer count, even if drover gives up because of breaches.
	r.proc.Machine.Attempts = max(r.proc.Machine.Attempts, r.proc.Record.Spec.Restarts().GiveUpAfter)
	r.putRest(func(rec *record.Record) { rec.GivenUp = true })
	r.sup.cfg.Log.Warn("process given up", "process", r.id, "attempts", r.proc.Machine.Attempts)
	r.schedule()
}

// finish records that a resident process has succeeded and is not relaunched. The record survives a reboot.
func (r *runner) finish() {
	r.proc.Runtime.Cause.ID = process.CauseFinished
	r.putRest(func(rec *record.Record) { rec.Finished = true })
	r.sup.cfg.Log.Info("process finished", "process", r.id)
}

// putRest stores that the process is not relaunched, and why.
func (r *runner) putRest(set func(*record.Record)) {
	rec := *r.proc.Record
	set(&rec)
	rec.Rest = r.proc.Cause()
	if err := r.sup.cfg.Store.PutRecord(rec); err != nil {
		r.sup.cfg.Log.Error("cannot store that the process is not relaunched", "process", r.id, "error", err)
	}
	r.proc.Record = &rec
}

// publish makes the state visible to other goroutines.
func (r *runner) publish() {
	known := r.shared.load().Record != nil
	r.claim()
	r.proc.Rival, r.proc.Active = r.claims.rival, story.Active{}
	if r.proc.Machine.Busy() {
		if r.proc.Active.Since = r.work.since; r.work.entry != nil {
			r.proc.Active.Op, r.proc.Active.Waits = r.work.entry.Op, r.work.waits
		}
	}
	public := r.public()
	r.shared.store(public)
	r.sup.peers.put(r.id, marksOf(&r.proc))
	r.sup.order.changed(r.id, public.Record)
	if r.work.show == nil && (known || public.Record != nil) {
		r.record()
		r.sup.cfg.Sink.Changed(r.id)
	}
}

// public is the process as other goroutines see it.
func (r *runner) public() story.Process {
	p := r.proc
	if !p.Machine.Busy() {
		return p
	}
	if p.Record == nil {
		p.Record = r.work.registers
	}
	if r.work.runtime != nil {
		p.Runtime = *r.work.runtime
	}
	return p
}

// machineTimer is the one timer of a machine.
type machineTimer struct {
	timer *time.Timer // nil when none is armed
	count int         // changes with each arm and disarm
}

// arm disarms the timer and starts it again. After that time, it calls ring with the number of this alarm.
func (t *machineTimer) arm(after time.Duration, ring func(number int)) {
	t.disarm()
	number := t.count
	t.timer = time.AfterFunc(after, func() { ring(number) })
}

func (t *machineTimer) disarm() {
	t.count++ // an alarm that fires at this moment is no longer current
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// isCurrent reports whether the alarm is the last that was armed.
func (t *machineTimer) isCurrent(number int) bool { return number == t.count }
