package supervisor

import (
	"context"
	"errors"
	"iter"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/limit"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// Subjects implements limit.Subjects.
func (s *Supervisor) Subjects() iter.Seq[limit.Subject] {
	return func(yield func(limit.Subject) bool) {
		for _, r := range s.all() {
			f := r.shared.load()
			if f.Record == nil || !f.Record.Hosted || f.Rival != 0 || f.Machine.State != lifecycle.Running ||
				f.Runtime.Process == nil {
				continue
			}
			p := f.Record.Spec.Policy
			if !yield(limit.Subject{
				ID: r.id, Instance: *f.Runtime.Process, Run: f.Runtime.Run, Limits: f.Record.Spec.Limits,
				StartedAt:   f.Runtime.Process.StartedAfterBoot(),
				StartWindow: time.Duration(max(p.StartCheckBegin, p.StartCheckEnd)) * time.Second,
			}) {
				return
			}
		}
	}
}

// Exceeded implements limit.Sink.
func (s *Supervisor) Exceeded(id process.ID, instance procfs.Identity, b process.Breach) {
	s.emit(id, func(ctx context.Context, r *runner) { r.exceeded(ctx, instance, &b) })
}

// Moved implements limit.Sink.
func (s *Supervisor) Moved(id process.ID) { s.cfg.Sink.Changed(id) }

// emit posts a message to the runner of a process. It drops the message if there is no runner.
func (s *Supervisor) emit(id process.ID, m message) {
	s.mu.Lock()
	r := s.runners[id]
	s.mu.Unlock()
	if r != nil {
		r.post(m)
	}
}

// exceeded ends a process that exceeds a limit. If the process has more breaches in an hour than start retries, drover
// gives it up.
func (r *runner) exceeded(ctx context.Context, who procfs.Identity, b *process.Breach) {
	if r.proc.Record == nil || r.proc.Machine.State != lifecycle.Running || r.proc.Runtime.Process == nil ||
		*r.proc.Runtime.Process != who {
		return
	}
	if r.mayNotEnd(who, "uses more than it may") {
		return
	}
	tally, spent := r.proc.Tally().Breached(r.sup.cfg.Bounds, r.now(),
		r.proc.Record.Spec.Restarts().GiveUpAfter)
	r.proc.Runtime.Breaches = tally.Breaches
	r.proc.Exceeded(time.Now(), b, spent)
	why := r.proc.Cause()
	r.sup.cfg.Log.Warn("process exceeded a limit", "process", r.id, "pid", who.PID, "resource", b.Resource,
		"limit", b.Limit, "group", b.Group)
	r.stepAndTell(ctx, lifecycle.Condemned{Final: spent}, func(c story.Change) []process.Event {
		return []process.Event{r.proc.Breached(c, who.PID, b, why)}
	})
}

// takeDown ends the process with its tree, in a goroutine of its own. It stores the reason first.
func (r *runner) takeDown(ctx context.Context,
	do func(context.Context, specstore.Record, specstore.Runtime) (operation.After, error),
) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.hold()
	r.work.cancel = cancel
	r.proc.DueAgain(time.Now())
	r.storeRuntime(r.proc.Runtime)
	rec, rt := *r.proc.Record, r.proc.Runtime
	relaunches := rec.Hosted && rt.Ending != nil && !rt.Ending.Final && rec.Spec.Policy.Kind == process.Resident
	r.sup.goroutines.spawn(func() {
		defer cancel(nil)
		if relaunches { // the process is not good, so it is ended all the same
			if lacks := r.sup.operator.Relaunchable(&rec); lacks != nil {
				r.post(func(_ context.Context, r *runner) { r.tell(r.proc.Unrelaunchable(rt.Process.PID, lacks)) })
			}
		}
		after, err := do(ctx, rec, rt)
		if errors.Is(err, operation.ErrInterrupted) {
			return
		}
		r.post(func(ctx context.Context, r *runner) { r.takenDown(ctx, after) })
	})
}

// resumeTakeDown continues the end by policy that an earlier agent began.
func (r *runner) resumeTakeDown(ctx context.Context) {
	r.proc.Machine = lifecycle.ResumeTakeDown(r.proc.Machine, r.proc.Runtime.Ending.Final)
	if alive, _ := r.sup.operator.Processes.Glance(*r.proc.Runtime.Process); alive {
		r.watch()
	}
	r.schedule()
	r.takeDown(ctx, r.sup.operator.ResumeTakeDown)
	r.publish()
}

// takenDown continues after an end by policy.
func (r *runner) takenDown(ctx context.Context, after operation.After) {
	before, why, note := r.proc.Runtime, r.proc.Runtime.Ending.Cause, after.Note
	r.proc.Runtime = after.Runtime
	r.tellLeftovers(after.Ended, story.Policy())
	rt := &r.proc.Runtime
	rt.Relaunches, rt.Breaches, rt.Restarts = before.Relaunches, before.Breaches, before.Restarts
	rt.LastExit, rt.Ending = story.LaterExit(before.LastExit, rt.LastExit), nil
	reason := why
	why = r.proc.BlameEnding(why, note)
	if now := r.proc.Runtime.Process; now != nil && *now != *before.Process {
		// Somebody else has already started the process again. That instance is not the work of drover, which finds it
		// like any other.
		r.proc.Runtime.Process, r.proc.Runtime.Ended = nil, before.Process
	}
	since := r.work.since
	if r.proc.Runtime.Process != nil {
		r.stepAndTell(ctx, lifecycle.TakenDown{Alive: true}, func(c story.Change) []process.Event {
			r.sup.cfg.Log.Error("cannot end process", "process", r.id, "note", note)
			return []process.Event{r.proc.NotTakenDown(c, reason, note)}
		})
		return
	}
	r.stopWatch()
	was := r.endOf(*before.Process, &before)
	was.Why = why
	was = r.withOutput(r.withLastWords(was))
	r.failsBy()
	r.stepAndTell(ctx, lifecycle.TakenDown{}, func(c story.Change) []process.Event {
		return r.proc.TakenDown(c, was, since)
	})
	r.beginOwed(ctx)
}
