package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/limit"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// Subjects implements limit.Subjects.
func (s *Supervisor) Subjects() []limit.Subject {
	var list []limit.Subject
	for _, r := range s.all() {
		f := r.shared.load()
		if f.record == nil || !f.record.Hosted || f.rival != 0 || f.machine.State != lifecycle.Running ||
			f.runtime.Process == nil {
			continue
		}
		p := f.record.Spec.Policy
		list = append(list, limit.Subject{
			ID: r.id, Instance: *f.runtime.Process, Run: f.runtime.Run, Limits: f.record.Spec.Limits,
			StartedAt:   f.runtime.Process.StartedAfterBoot(),
			StartWindow: time.Duration(max(p.StartCheckBegin, p.StartCheckEnd)) * time.Second,
		})
	}
	return list
}

// Exceeded implements limit.Sink.
func (s *Supervisor) Exceeded(id process.ID, instance procfs.Identity, b process.Breach) {
	s.emit(id, func(ctx context.Context, r *runner) { r.exceeded(ctx, instance, &b) })
}

// Moved implements limit.Sink.
func (s *Supervisor) Moved(id process.ID) { s.cfg.Sink.Changed(id) }

// emit posts a message to a process that is known; others have no use for it.
func (s *Supervisor) emit(id process.ID, m message) {
	s.mu.Lock()
	r := s.runners[id]
	s.mu.Unlock()
	if r != nil {
		r.post(m)
	}
}

// exceeded has a process ended that uses more than it may. One breach more in an hour than it may be relaunched is the
// last.
func (r *runner) exceeded(ctx context.Context, who procfs.Identity, b *process.Breach) {
	if r.work.busy || r.record == nil || r.machine.State != lifecycle.Running || r.runtime.Process == nil ||
		*r.runtime.Process != who {
		return
	}
	if r.mayNotEnd(who, "uses more than it may") {
		return
	}
	tally, spent := r.tally().Breached(r.sup.cfg.Bounds, r.now(), r.record.Spec.Policy.StartRetries)
	r.runtime.Breaches = tally.Breaches
	kind, cause := process.EventBreach, process.CauseCPULimit
	switch {
	case b.Group != "":
		kind, cause = process.EventGroupBreach, process.CauseGroupLimit
	case b.Resource == "mem":
		cause = process.CauseMemLimit
	}
	r.blame(cause, breachText(who.PID, b))
	why := r.cause()
	r.runtime.Ending = &specstore.Ending{Cause: why, Final: spent}
	r.sup.cfg.Log.Warn("process exceeded a limit", "process", r.id, "pid", who.PID, "resource", b.Resource,
		"limit", b.Limit, "group", b.Group)
	r.stepAndEmit(ctx, lifecycle.Condemned{Final: spent}, func(from, to lifecycle.State) {
		r.happened(from, to, process.Event{Kind: kind, PID: who.PID, Cause: why, Actor: byPolicy(), Breach: b})
	})
}

// breachText puts a breach into words.
func breachText(pid int, b *process.Breach) string {
	words := make([]string, len(b.Samples))
	for i, s := range b.Samples {
		words[i] = fmt.Sprintf("%.1f", s)
	}
	what := map[string]string{"cpu": "of the processors", "mem": "of the memory"}[b.Resource]
	if b.Group != "" {
		return fmt.Sprintf(
			"process group %q used %s %% %s, but may use %g %%: drover ended pid %d, which had the highest score",
			b.Group, strings.Join(words, ", "), what, b.Limit, pid)
	}
	return fmt.Sprintf("pid %d used %s %% %s, but may use %g %%: drover ended it", pid, strings.Join(words, ", "), what,
		b.Limit)
}

// takeDown ends the process with its tree, beside the goroutine of run. Why is on record before anything is done.
func (r *runner) takeDown(ctx context.Context,
	do func(context.Context, specstore.Record, specstore.Runtime) (operation.After, error),
) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.hold()
	r.work.cancel = cancel
	if r.runtime.Ending == nil {
		r.runtime.Ending = &specstore.Ending{Cause: process.Cause{
			Text: "pid " + itoa(r.pid()) + " was ended so that its next run can begin", Since: time.Now().UnixMilli(),
		}}
	}
	r.storeRuntime(r.runtime)
	rec, rt := *r.record, r.runtime
	r.sup.goroutines.spawn(func() {
		defer cancel(nil)
		after, err := do(ctx, rec, rt)
		if errors.Is(err, operation.ErrInterrupted) {
			return
		}
		r.post(func(ctx context.Context, r *runner) { r.takenDown(ctx, after) })
	})
}

// resumeTakeDown goes on with the end by policy that an earlier agent was in the middle of.
func (r *runner) resumeTakeDown(ctx context.Context) {
	r.machine.State, r.machine.Awaits, r.machine.Final = lifecycle.Stopping, lifecycle.Removal, r.runtime.Ending.Final
	if alive, _ := r.sup.operator.Processes.Glance(*r.runtime.Process); alive {
		r.watch()
	}
	r.schedule()
	r.takeDown(ctx, r.sup.operator.ResumeTakeDown)
	r.publish()
}

// takenDown goes on after an end by policy.
func (r *runner) takenDown(ctx context.Context, after operation.After) {
	r.work.busy = false
	before, why, note := r.runtime, r.runtime.Ending.Cause, after.Note
	r.runtime = after.Runtime
	r.emitLeftovers(after.Ended, byPolicy())
	r.runtime.Relaunches, r.runtime.Breaches, r.runtime.Restarts = before.Relaunches, before.Breaches, before.Restarts
	r.runtime.LastExit = lastExit(before.LastExit, after.Runtime.LastExit)
	r.runtime.Ending = nil
	reason := why.Text
	why.Text = join(reason, note)
	r.runtime.Note, r.runtime.Cause = why.Text, process.Cause{ID: why.ID, Since: why.Since, Evidence: why.Evidence}
	if now := r.runtime.Process; now != nil && *now != *before.Process {
		// Somebody else was quicker to start it again. That instance is nobody's doing here, and is found like any
		// other.
		r.runtime.Process, r.runtime.Ended = nil, before.Process
	}
	if r.runtime.Process != nil {
		r.relaunching.reserved = false // nothing is to be started again
		r.stepAndEmit(ctx, lifecycle.TakenDown{Alive: true}, func(from, to lifecycle.State) {
			r.sup.cfg.Log.Error("cannot end process", "process", r.id, "note", note)
			r.blame(process.CauseStopFailed, join("pid "+itoa(r.pid())+" could not be ended", note))
			r.runtime.Cause.Evidence = append([]string{reason}, why.Evidence...)
			r.happened(from, to, process.Event{
				Kind: process.EventFailed, PID: r.pid(), Cause: r.cause(),
				Actor: byPolicy(),
			})
		})
		return
	}
	r.stopWatch()
	e := process.Event{
		Kind: process.EventTakenDown, PID: before.Process.PID, Cause: why, Actor: byPolicy(),
		Exit: r.exitSince(r.work.since),
	}
	r.describeRun(&e, r.withLastWords(processEnd{run: before.Run, began: before.LastStartAt}))
	r.stepAndEmit(ctx, lifecycle.TakenDown{}, func(from, to lifecycle.State) {
		r.closeRun(&e, before.LastStartAt)
		r.happened(from, to, e)
		if to == lifecycle.GivenUp {
			r.emitGivenUp(from)
		}
	})
	r.beginOwed(ctx)
}

// lastExit is the later one of two ends that were seen. Where both are of the same instance, the watch knows more of
// it.
func lastExit(watched, told *process.Exit) *process.Exit {
	if watched == nil || told != nil && told.At > watched.At {
		return told
	}
	return watched
}

// exitSince is the last end, if it was not before a moment in Unix milliseconds: an earlier one was that of another
// instance.
func (r *runner) exitSince(moment int64) *process.Exit {
	if e := r.runtime.LastExit; e != nil && e.At >= moment {
		return e
	}
	return nil
}
