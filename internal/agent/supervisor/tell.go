package supervisor

import (
	"context"
	"reflect"
	"strings"
	"time"

	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// tell sends events of this process.
func (r *runner) tell(events ...process.Event) {
	for _, e := range events {
		e.Process = r.id
		if e.At == 0 {
			e.At = time.Now().UnixMilli()
		}
		// The end of a run is exact to the millisecond; its beginning is when the agent recorded it. Keep the times in
		// the order of the events, unless a clock was set back by a minute or more.
		if ahead := r.lastEventAt - e.At; ahead > 0 && ahead < time.Minute.Milliseconds() {
			e.At = r.lastEventAt
		}
		r.lastEventAt = e.At
		if r.proc.Record != nil {
			e.ReportID = r.proc.Record.Spec.AlarmID
		}
		r.sup.cfg.Sink.Happened(e)
	}
}

// recordEvery is how often the state of a process is recorded at least. So a server that has lost a record, or has
// removed it because of its age, knows the state again.
const recordEvery = 24 * time.Hour

// record hands over what a list shows of the process, if that has changed.
func (r *runner) record() {
	now, public := time.Now(), r.public()
	shown, changed := r.unrecorded(&public)
	if !changed {
		return
	}
	last := r.lastRecord()
	if shown.Since = now.UnixMilli(); shown.State == last.State && shown.Gone == last.Gone && shown.PID == last.PID {
		shown.Since = last.Since
	}
	r.recorded.Store(&shown)
	r.handOver(now)
}

// lastRecord returns what was recorded last; zero if nothing was.
func (r *runner) lastRecord() process.Shown {
	if last := r.recorded.Load(); last != nil {
		return *last
	}
	return process.Shown{}
}

// unrecorded returns what a list shows of the process, and whether that differs from the last record. A process that
// is not registered and was never recorded, as after a first start that was refused, leaves no record.
func (r *runner) unrecorded(p *story.Process) (shown process.Shown, changed bool) {
	var findings []process.Cause
	if p.Record != nil {
		findings = r.sup.operator.Findings(p.Record, &p.Runtime)
	}
	shown = p.Recorded(time.Now(), r.now(), findings)
	last := r.lastRecord()
	return shown, !shown.Same(last) && (!shown.Gone || last != process.Shown{})
}

// handOver hands over what was recorded last. Its time is not before that of an earlier record, unless a clock was set
// back by a minute or more.
func (r *runner) handOver(now time.Time) {
	shown := r.lastRecord()
	if shown == (process.Shown{}) {
		return
	}
	at := now.UnixMilli()
	if last := r.recordedAt.Load(); last > at && last-at < time.Minute.Milliseconds() {
		at = last
	}
	r.recordedAt.Store(at)
	r.sup.cfg.Sink.StateShown(r.id, at, shown)
}

// RecordAll hands over what lists show of all processes, because earlier records were lost.
func (s *Supervisor) RecordAll() {
	for _, r := range s.all() {
		r.post(func(_ context.Context, r *runner) { r.handOver(time.Now()) })
	}
}

// recordDue hands over what lists show of a process, if the last record is old, or if the state has changed by itself:
// a process flaps no longer, or a cause does not count any more.
func (r *runner) recordDue(p *story.Process) {
	if last := r.recordedAt.Load(); last != 0 && time.Now().UnixMilli()-last >= recordEvery.Milliseconds() {
		r.post(func(_ context.Context, r *runner) { r.handOver(time.Now()) })
	}
	if _, changed := r.unrecorded(p); changed {
		r.post(func(_ context.Context, r *runner) {
			r.record()
			r.sup.cfg.Sink.Changed(r.id)
		})
	}
}

// unchanged is a Change without a change of state.
func (r *runner) unchanged() story.Change {
	s := r.proc.Machine.State
	return story.Change{From: s, To: s, Now: time.Now(), Uptime: r.now()}
}

// tellLeftovers reports the leftovers that drover ended.
func (r *runner) tellLeftovers(ended []liveness.Member, actor process.Actor) {
	if text := operation.EndedText(ended); text != "" {
		r.sup.cfg.Log.Info("ended left-over processes", "process", r.id, "ended", text)
		r.tell(r.proc.Leftovers(text, actor))
	}
}

// withLastWords adds the last output of the instance to its end. If the instance wrote none, it adds the end of the
// log, read before the next instance writes to that log.
func (r *runner) withLastWords(was story.End) story.End {
	spec := &r.proc.Record.Spec
	if spec.LogPath() == "" {
		return was
	}
	if was = r.withOutput(was); strings.TrimSpace(was.Words) == "" {
		was.Words = r.sup.operator.Commands.LastWords(spec, time.Unix(was.Began, 0))
		was.Log = spec.LogPath()
	}
	return was
}

// withOutput adds the last output of the instance to its end.
func (r *runner) withOutput(was story.End) story.End {
	if was.Words == "" && was.Run != "" {
		was.Words = r.sup.operator.Commands.Output(was.Run)
	}
	return was
}

// operation returns the input of story for an operation; before is the state when the operation ended.
func (r *runner) operation(e *record.Entry, result *operation.Result, before story.Process) *story.Operation {
	op := &story.Operation{
		Entry: e, Outcome: result.Outcome, Wrote: result.Wrote, Stored: result.Change.Put != nil,
		Record: before.Record, Runtime: before.Runtime, Prior: r.work.prior, Since: r.work.since,
	}
	if r.proc.Runtime.Process == nil && r.proc.Runtime.Run != "" {
		op.Output = r.sup.operator.Commands.Output(r.proc.Runtime.Run)
	}
	if how := r.proc.Runtime.LastExit; how != nil {
		op.How = liveness.ExitOf(how).String()
	}
	return op
}

// saveHistory stores the history of runs if it has changed.
func (r *runner) saveHistory() {
	if reflect.DeepEqual(r.proc.History, r.savedHistory) {
		return
	}
	r.savedHistory = r.proc.History
	if err := r.sup.cfg.Histories.PutHistory(r.id, r.proc.History); err != nil {
		r.sup.cfg.Log.Warn("cannot store the runs of process", "process", r.id, "error", err)
	}
}
