package supervisor

import (
	"context"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/timetable"
	"drover/internal/process"
)

// Due implements timetable.Sink.
func (s *Supervisor) Due(id process.ID, at time.Time, _ bool) { s.tell(id, message{kind: due, at: at}) }

// Missed implements timetable.Sink.
func (s *Supervisor) Missed(id process.ID, _, to time.Time, count int) {
	s.tell(id, message{kind: missed, at: to, count: count})
}

// maxRuns is how many runs are remembered.
const maxRuns = 10

// keepsHistory reports whether what came of each run is worth keeping.
func (r *runner) keepsHistory() bool {
	return r.record != nil && r.record.Hosted && r.record.Spec.Policy.Kind != process.Resident
}

// readHistory takes up what earlier lives of the agent have kept.
func (r *runner) readHistory() {
	if !r.keepsHistory() {
		return
	}
	h, err := r.sup.cfg.Histories.GetHistory(r.id)
	if err != nil {
		r.sup.cfg.Log.Warn("runs of process could not be read", "process", r.id, "error", err)
	}
	r.history = h
}

func (r *runner) writeHistory() {
	if err := r.sup.cfg.Histories.PutHistory(r.id, r.history); err != nil {
		r.sup.cfg.Log.Warn("runs of process could not be stored", "process", r.id, "error", err)
	}
}

// schedule sets the timetable of a periodic process, and drops that of any other.
func (r *runner) schedule() {
	rec := r.record
	if rec == nil || !rec.Hosted || rec.GivenUp || rec.Spec.Policy.Kind != process.Periodic {
		r.sup.parts.Timetables.Drop(r.id)
		return
	}
	table, err := timetable.Parse(rec.Spec.Policy, rec.Spec.Schedule)
	if err != nil {
		// No operation stores one; a newer version may have.
		r.sup.parts.Timetables.Drop(r.id)
		r.blame(process.CauseBadSchedule, err.Error())
		r.sup.cfg.Log.Error("timetable could not be read", "process", r.id, "error", err)
		return
	}
	r.sup.parts.Timetables.Set(r.id, table, r.history.Due, rec.Spec.Schedule.Missed)
}

// due begins a run, or does what the policy says where one is under way.
func (r *runner) due(ctx context.Context, at time.Time) {
	if !r.keepsHistory() {
		return
	}
	r.history.Due = at
	r.writeHistory()
	r.step(ctx, lifecycle.Due{})
}

// skipped tells of a run that was left out.
func (r *runner) skipped() {
	text := "the run of " + r.history.Due.Format(time.RFC3339) + " was left out: the one before it had not ended"
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: process.EventRunSkipped, PID: r.pid(), Actor: byPolicy(), Cause: process.Cause{ID: process.CauseRunSkipped, Text: text},
	})
}

// missed tells of runs whose time passed while nobody was there.
func (r *runner) missed(last time.Time, count int) {
	if !r.keepsHistory() {
		return
	}
	r.history.Due = last
	r.writeHistory()
	text := itoa(count) + " runs were missed, the last one that of " + last.Format(time.RFC3339) + ": the agent or its host was away"
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: process.EventRunMissed, Actor: byPolicy(), Cause: process.Cause{ID: process.CauseRunMissed, Text: text}, Attempt: count,
	})
	r.show()
}

// runBegun notes a run that is under way.
func (r *runner) runBegun() {
	r.noteRun(process.Run{Started: time.Now().UnixMilli(), PID: r.pid()})
}

// runRefused notes a run that could not be begun.
func (r *runner) runRefused(why string) {
	now := time.Now().UnixMilli()
	r.noteRun(process.Run{Started: now, Ended: now, Output: why})
}

func (r *runner) noteRun(run process.Run) {
	r.history.Runs = append([]process.Run{run}, r.history.Runs[:min(len(r.history.Runs), maxRuns-1)]...)
	r.writeHistory()
}

// runOver notes the end of the run that is under way, and returns what to tell of it.
func (r *runner) runOver(how *process.Exit, output string) process.EventKind {
	if runs := r.history.Runs; len(runs) > 0 && runs[0].Ended == 0 {
		over := runs[0]
		over.Ended, over.Exit, over.Output = time.Now().UnixMilli(), how, output
		r.history.Runs = append([]process.Run{over}, runs[1:]...) // what others see of it is never changed
		r.writeHistory()
	}
	if how != nil && how.Known && (how.Code != 0 || how.Signal != 0) {
		r.runtime.Cause.ID = process.CauseRunFailed
		return process.EventRunFailed
	}
	r.runtime.Cause.ID = process.CauseFinished
	return process.EventRunEnded
}
