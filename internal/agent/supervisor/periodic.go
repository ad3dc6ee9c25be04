package supervisor

import (
	"context"
	"time"

	"drover/internal/clip"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/specstore"
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

const (
	// maxRuns is how many runs are remembered.
	maxRuns = 10
	// maxRunOutput is how much is remembered of what a run wrote, in bytes.
	maxRunOutput = 2 << 10
)

// ending returns the end of what a run wrote.
func ending(output string) string { return clip.Tail(output, maxRunOutput) }

// keepsHistory reports whether what came of each run is worth keeping.
func (r *runner) keepsHistory() bool {
	return r.record != nil && r.record.Spec.Policy.Kind != process.Resident
}

// runsByTimetable reports whether the timetable of the process counts.
func (r *runner) runsByTimetable() bool {
	return r.record != nil && r.record.Hosted && r.claims.rival == 0 && !r.record.GivenUp &&
		r.record.Spec.Policy.Kind == process.Periodic
}

// readHistory takes up what earlier lives of the agent have kept.
func (r *runner) readHistory() {
	if !r.keepsHistory() {
		return
	}
	h, err := r.sup.cfg.Histories.GetHistory(r.id)
	if err != nil {
		r.sup.cfg.Log.Warn("cannot read the runs of process", "process", r.id, "error", err)
	}
	r.history = h
}

func (r *runner) writeHistory() {
	if err := r.sup.cfg.Histories.PutHistory(r.id, r.history); err != nil {
		r.sup.cfg.Log.Warn("cannot store the runs of process", "process", r.id, "error", err)
	}
}

// schedule sets the timetable of a periodic process, and drops that of any other. A timetable counts from the moment
// that it was given: what was due before, or while the process was not hosted, is not missed.
func (r *runner) schedule() {
	if !r.runsByTimetable() {
		r.sup.cfg.Timetables.Drop(r.id)
		runs := r.history.Runs
		if r.record == nil || !r.keepsHistory() {
			runs = nil
		}
		if r.history.Table != "" || len(runs) != len(r.history.Runs) {
			r.history = specstore.History{Runs: runs}
			r.writeHistory()
		}
		return
	}
	policy, when := r.record.Spec.Policy, r.record.Spec.Schedule
	table, err := timetable.Parse(policy, when)
	if err != nil {
		// No operation stores one; a newer version may have.
		r.sup.cfg.Timetables.Drop(r.id)
		r.blame(process.CauseBadSchedule, err.Error())
		r.sup.cfg.Log.Error("cannot read timetable", "process", r.id, "error", err)
		return
	}
	if name := policy.Crontab + " " + when.TimeZone + " " + itoa(policy.CycleTime); r.history.Table != name {
		r.history.Due, r.history.Owed, r.history.Table = time.Now(), false, name
		r.writeHistory()
	}
	r.sup.cfg.Timetables.Set(r.id, table, r.history.Due, when.Missed)
}

// due begins a run, or does what the policy says where one is under way. That it is owed is on record before anything
// is done.
func (r *runner) due(ctx context.Context, at time.Time) {
	if !r.runsByTimetable() {
		return
	}
	r.history.Due, r.history.Owed = at, true
	r.writeHistory()
	if r.machine.State == lifecycle.Operating && r.record.Spec.Schedule.Overlap == process.OverlapWait {
		return // until the operation has ended
	}
	r.step(ctx, lifecycle.Due{})
}

// patience is how late a run may be begun that the agent's own death has held up.
const patience = time.Minute

// beginOwed begins the run that is still to begin, once nothing is in its way. One that is being started is it.
func (r *runner) beginOwed(ctx context.Context) {
	if !r.history.Owed || r.work.busy || r.machine.Pending || r.machine.State == lifecycle.Starting ||
		!r.runsByTimetable() {
		return
	}
	if time.Since(r.history.Due) > patience && r.machine.State == lifecycle.Scheduled &&
		r.record.Spec.Schedule.Missed != process.MissedRun {
		r.missed(r.history.Due, 1)
		return
	}
	r.step(ctx, lifecycle.Due{})
}

// skipped tells of a run that was left out.
func (r *runner) skipped() {
	why := "the previous run had not ended"
	switch {
	case r.machine.State == lifecycle.Operating:
		why = "an operation was under way"
	case r.record.Spec.Schedule.Overlap == process.OverlapReplace:
		why = "the previous run could not be ended"
	}
	text := "the run of " + r.history.Due.Format(time.RFC3339) + " was skipped: " + why
	r.blame(process.CauseRunSkipped, text)
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: process.EventRunSkipped, PID: r.pid(),
		Actor: byPolicy(), Cause: r.cause(),
	})
	r.history.Owed = false
	r.writeHistory()
}

// missed tells of runs whose time passed while nobody was there.
func (r *runner) missed(last time.Time, count int) {
	if !r.runsByTimetable() {
		return
	}
	r.history.Due, r.history.Owed = last, false
	text := "missed the run of "
	if count > 1 {
		text = "missed " + process.Count(count, "run", "runs") + ", the last one of "
	}
	r.blame(process.CauseRunMissed, text+last.Format(time.RFC3339)+": the agent or its host was away")
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: process.EventRunMissed, Actor: byPolicy(),
		Attempt: count, Cause: r.cause(),
	})
	r.writeHistory()
	r.publish()
}

// openRun is the run that is under way as far as is known; nil where there is none.
func (r *runner) openRun() *process.Run {
	if len(r.history.Runs) == 0 || r.history.Runs[0].Ended != 0 {
		return nil
	}
	return &r.history.Runs[0]
}

// runBegun notes a run that is under way.
func (r *runner) runBegun() {
	r.history.Owed = false
	if open := r.openRun(); open != nil && open.PID == r.pid() {
		r.writeHistory() // an earlier agent had come so far
		return
	}
	r.noteRun(process.Run{Started: time.Now().UnixMilli(), PID: r.pid()})
}

// runRefused notes a run that could not be begun.
func (r *runner) runRefused(why string) {
	now := time.Now().UnixMilli()
	r.history.Owed = false
	r.noteRun(process.Run{Started: now, Ended: now, Output: ending(why)})
}

// runOfOperation notes the run that an operation has begun, and tells how it ended if it has.
func (r *runner) runOfOperation(to lifecycle.State) {
	if !r.keepsHistory() || r.runtime.LastStartAt*1000+999 < r.work.since {
		return
	}
	r.history.Owed = false
	if r.runtime.Process != nil {
		r.noteRun(process.Run{Started: r.runtime.LastStartAt * 1000, PID: r.pid()})
		return
	}
	e := process.Event{Kind: process.EventRunEnded, Exit: r.exitSince(r.work.since)}
	if was := r.runtime.Ended; was != nil {
		e.PID = was.PID
	}
	r.describeRun(&e, processEnd{run: r.runtime.Run, began: r.runtime.LastStartAt})
	r.noteRun(process.Run{Started: r.runtime.LastStartAt * 1000, PID: e.PID})
	r.closeRun(&e, r.runtime.LastStartAt)
	if r.judgeRun(&e); e.Kind == process.EventRunEnded {
		e.Actor = actorOfExit(e.Exit)
		r.runtime.Note = "the run of pid " + itoa(e.PID) + " ended with exit status 0"
		e.Cause.Text = r.runtime.Note
		r.happened(r.work.prior, to, e)
	}
}

// noteRun adds a run. One that was taken to be under way is over then.
func (r *runner) noteRun(run process.Run) {
	if open := r.openRun(); open != nil {
		over := *open
		over.Ended = run.Started
		r.history.Runs = append([]process.Run{over}, r.history.Runs[1:]...)
	}
	r.history.Runs = append([]process.Run{run}, r.history.Runs[:min(len(r.history.Runs), maxRuns-1)]...)
	r.writeHistory()
}

// closeRun notes the end of the run that an event tells of, whoever has begun it, unless an earlier agent has done so,
// and reports whether runs are noted at all. began is in Unix seconds.
func (r *runner) closeRun(e *process.Event, began int64) bool {
	if !r.keepsHistory() {
		return false
	}
	if r.openRun() == nil {
		if runs := r.history.Runs; len(runs) > 0 && runs[0].Started >= began*1000 {
			return true
		}
		r.noteRun(process.Run{Started: began * 1000, PID: e.PID})
	}
	over := r.history.Runs[0]
	over.Ended, over.Exit, over.Output = time.Now().UnixMilli(), e.Exit, ending(e.Output)
	r.history.Runs = append([]process.Run{over}, r.history.Runs[1:]...) // what others see of it is never changed
	r.writeHistory()
	return true
}

// judgeRun makes the event of an end, and what is known of the process, one of a run that ended well or did not. Of
// what nobody saw the event stays as it is.
func (r *runner) judgeRun(e *process.Event) {
	switch {
	case e.Exit == nil || !e.Exit.Known:
		return
	case e.Exit.Code != 0 || e.Exit.Signal != 0:
		e.Kind, e.Cause.ID = process.EventRunFailed, process.CauseRunFailed
	default:
		e.Kind, e.Cause.ID = process.EventRunEnded, process.CauseFinished
	}
	r.runtime.Cause.ID = e.Cause.ID
}
