package supervisor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/record"
	"drover/internal/agent/timetable"
	"drover/internal/process"
)

// Due implements timetable.Sink.
func (s *Supervisor) Due(id process.ID, at time.Time, _ bool) {
	s.emit(id, func(ctx context.Context, r *runner) { r.due(ctx, at) })
}

// Missed implements timetable.Sink.
func (s *Supervisor) Missed(id process.ID, _, to time.Time, count int) {
	s.emit(id, func(_ context.Context, r *runner) { r.missed(to, count) })
}

// runsByTimetable reports whether the timetable of the process is in force.
func (r *runner) runsByTimetable() bool {
	return r.proc.Record != nil && r.proc.Record.Hosted && r.claims.rival == 0 && !r.proc.Record.GivenUp &&
		r.proc.Record.Spec.Kind() == process.Periodic
}

// readHistory reads the runs that earlier agents stored.
func (r *runner) readHistory() {
	if !r.proc.KeepsRuns() {
		return
	}
	h, err := r.sup.cfg.Histories.GetHistory(r.id)
	if err != nil {
		r.sup.cfg.Log.Warn("cannot read the runs of process", "process", r.id, "error", err)
	}
	r.proc.History, r.savedHistory = h, h
}

// schedule sets the timetable of a periodic process, and drops the timetable of any other process. A timetable counts
// from the moment when it was set: an earlier time is not a missed run, nor is a time while the process was not
// hosted.
func (r *runner) schedule() {
	if !r.runsByTimetable() {
		r.sup.cfg.Timetables.Drop(r.id)
		runs := r.proc.History.Runs
		if r.proc.Record == nil || !r.proc.KeepsRuns() {
			runs = nil
		}
		if r.proc.History.Table != "" || len(runs) != len(r.proc.History.Runs) {
			r.proc.History = record.History{Runs: runs}
			r.saveHistory()
		}
		return
	}
	when := r.proc.Record.Spec.Timetable()
	table, err := timetable.Parse(&r.proc.Record.Spec)
	if err != nil {
		// No operation stores a bad timetable, but a newer version of drover may have stored a timetable that this
		// version cannot read.
		r.sup.cfg.Timetables.Drop(r.id)
		r.proc.Blame(time.Now(), process.CauseBadSchedule, err.Error())
		r.sup.cfg.Log.Error("cannot read timetable", "process", r.id, "error", err)
		return
	}
	name := when.Cron + " " + when.TimeZone + " " + when.Interval().String()
	if h := &r.proc.History; h.Table != name {
		h.Due, h.Owed, h.Table = time.Now(), false, name
		r.saveHistory()
	}
	r.sup.cfg.Timetables.Set(r.id, table, r.proc.History.Due, when.Missed)
}

// due begins a run, or applies the overlap policy if a run is under way. It first stores that the run is owed.
func (r *runner) due(ctx context.Context, at time.Time) {
	if !r.runsByTimetable() {
		return
	}
	r.proc.RunDue(at)
	r.saveHistory()
	if r.proc.Machine.State == lifecycle.Operating && r.proc.Record.Spec.Timetable().Overlap == process.OverlapWait {
		return // beginOwed follows when the operation has ended
	}
	r.beginRun(ctx)
}

// beginRun begins the owed run. A run that would replace another one begins only if nothing is known that prevents it;
// else it is skipped, and the other one goes on.
func (r *runner) beginRun(ctx context.Context) {
	if !r.wouldReplaceRun() {
		r.beginInOrder(ctx)
		return
	}
	rec := *r.proc.Record
	r.sup.goroutines.spawn(func() { // a file system may be slow
		lacks := r.sup.operator.Relaunchable(&rec)
		r.post(func(ctx context.Context, r *runner) {
			switch {
			case !r.proc.History.Owed || !r.runsByTimetable():
			case lacks != nil && r.wouldReplaceRun():
				r.skipped(fmt.Sprintf("preflight failed: %v; pid %d runs on", lacks, r.proc.PID()))
				r.publish()
			default:
				r.beginInOrder(ctx)
			}
		})
	})
}

// wouldReplaceRun reports whether a due run ends the present one.
func (r *runner) wouldReplaceRun() bool {
	return r.proc.Machine.State == lifecycle.Running && r.proc.Record.Spec.Timetable().Overlap == process.OverlapReplace
}

// beginInOrder begins the owed run, or skips it if a process that it is after is not up. While something is under way
// with such a process, the run waits for the next change.
func (r *runner) beginInOrder(ctx context.Context) {
	spec, state := &r.proc.Record.Spec, r.proc.Machine.State
	replaces := r.wouldReplaceRun()
	if len(spec.After) == 0 || state != lifecycle.Scheduled && !replaces {
		r.step(ctx, lifecycle.Due{})
		return
	}
	if r.leaveOrder != nil {
		r.leaveOrder()
	}
	var w wait
	w, r.leaveOrder = r.sup.order.lookAndNext(func() wait { return r.sup.afterStart(r.id, spec) }, func() {
		r.post(func(ctx context.Context, r *runner) {
			if r.proc.History.Owed && r.runsByTimetable() && r.proc.Machine.State == lifecycle.Scheduled {
				r.beginRun(ctx)
			}
		})
	})
	if len(w.unmet) > 0 && w.busy && !replaces {
		return
	}
	if r.leaveOrder(); len(w.unmet) > 0 {
		r.skipped(strings.Join(w.unmet, ", "))
		r.publish()
		return
	}
	r.step(ctx, lifecycle.Due{})
}

// patience is how late a run may begin if the agent was not running at its time.
const patience = time.Minute

// beginOwed begins the owed run when nothing is in its way. It does nothing while a run is being started.
func (r *runner) beginOwed(ctx context.Context) {
	m := &r.proc.Machine
	if !r.proc.History.Owed || m.Busy() || m.Pending || m.State == lifecycle.Starting || !r.runsByTimetable() {
		return
	}
	if time.Since(r.proc.History.Due) > patience && r.proc.Machine.State == lifecycle.Scheduled &&
		r.proc.Record.Spec.Timetable().Missed != process.MissedRun {
		r.missed(r.proc.History.Due, 1)
		return
	}
	r.beginRun(ctx)
}

// skipped reports a run that was left out because a process that it is after is not up, or because it could not start;
// by the overlap policy if unmet is empty.
func (r *runner) skipped(unmet string) {
	e := r.proc.RunSkipped(time.Now(), unmet)
	r.tell(e)
	r.saveHistory()
}

// missed reports runs whose time passed while no agent was running.
func (r *runner) missed(last time.Time, count int) {
	if !r.runsByTimetable() {
		return
	}
	r.tell(r.proc.RunsMissed(time.Now(), last, count))
	r.saveHistory()
	r.publish()
}

// runLimit is the timer that ends a run by its time limit.
type runLimit struct {
	machineTimer
	instance instance.Identity
	limit    time.Duration
}

// limitRun sets the timer of a run with a time limit, and drops it when no such run is under way.
func (r *runner) limitRun() {
	var limit time.Duration
	if r.proc.Record != nil && r.proc.KeepsRuns() && r.proc.Machine.State == lifecycle.Running &&
		r.proc.Runtime.Process != nil && r.claims.rival == 0 {
		limit = r.proc.Record.Spec.RunLimit()
	}
	if limit == 0 {
		r.runLimit.disarm()
		r.runLimit = runLimit{machineTimer: r.runLimit.machineTimer}
		return
	}
	who := *r.proc.Runtime.Process
	if r.runLimit.instance == who && r.runLimit.limit == limit {
		return
	}
	r.runLimit.instance, r.runLimit.limit = who, limit
	r.runLimit.arm(max(who.StartedAfterBoot()+limit-r.now(), 0), func(number int) {
		r.post(func(ctx context.Context, r *runner) {
			if r.runLimit.isCurrent(number) {
				r.tookTooLong(ctx)
			}
		})
	})
}

// tookTooLong ends a run that has reached its time limit.
func (r *runner) tookTooLong(ctx context.Context) {
	who := r.runLimit.instance
	if r.proc.Machine.State != lifecycle.Running || r.proc.PID() != who.PID ||
		r.mayNotEnd(who, "has reached its time limit") {
		return
	}
	r.proc.TookTooLong(time.Now(), r.runLimit.limit)
	r.sup.cfg.Log.Warn("run reached its time limit", "process", r.id, "pid", who.PID, "limit", r.runLimit.limit)
	r.step(ctx, lifecycle.Condemned{})
}
