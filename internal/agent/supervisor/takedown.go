package supervisor

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/limit"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
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
			if !yield(limit.Subject{
				ID: r.id, Instance: *f.Runtime.Process, Run: f.Runtime.Run, Limits: f.Record.Spec.Shares(),
				StartedAt:   f.Runtime.Process.StartedAfterBoot(),
				StartWindow: f.Record.Spec.CheckTime(),
			}) {
				return
			}
		}
	}
}

// Exceeded implements limit.Sink.
func (s *Supervisor) Exceeded(id process.ID, instance instance.Identity, b process.Breach) {
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
func (r *runner) exceeded(ctx context.Context, who instance.Identity, b *process.Breach) {
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
	do func(context.Context, record.Record, record.Runtime) (operation.After, error),
) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.hold()
	r.work.cancel = cancel
	r.proc.DueAgain(time.Now())
	r.storeRuntime(r.proc.Runtime)
	rec, rt := *r.proc.Record, r.proc.Runtime
	relaunches := rec.Hosted && rec.Spec.Kind() == process.Resident && rt.Ending != nil && !rt.Ending.Final &&
		!r.sup.waits()
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
	rt.Waited = r.sup.shutsDown.Load() && r.proc.Record.Spec.Kind() == process.Resident
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

// Ended is what has become of a process in a Shutdown. Left tells that it still runs; Text says how or why.
type Ended struct {
	ID   process.ID
	Left bool
	Text string
}

// Shutdown ends all hosted processes by their own rules of a stop, in the reverse of their order, and tells of each. It
// returns when all have ended, or when ctx ends. From its call on this agent starts nothing and begins no operation.
// What is wanted stays: the next agent starts the processes again, in order.
func (s *Supervisor) Shutdown(ctx context.Context, tell func(Ended)) {
	s.shutsDown.Store(true)
	left, asked := map[process.ID]*runner{}, map[process.ID]bool{}
	for _, r := range s.all() {
		left[r.id] = r
	}
	results := make(chan Ended, len(left))
	for len(left) > 0 {
		for id, r := range left {
			if !asked[id] && !s.neededBy(id, left) {
				asked[id] = true
				end := &shutdown{result: results}
				r.post(func(ctx context.Context, r *runner) { r.shutDown(ctx, end) })
			}
		}
		select {
		case e := <-results:
			for more := true; more; more = len(results) > 0 {
				if e.Text != "" {
					tell(e)
				}
				if delete(left, e.ID); len(results) > 0 {
					e = <-results
				}
			}
		case <-ctx.Done():
			ids := slices.Collect(maps.Keys(left))
			process.SortIDs(ids)
			for _, id := range ids {
				text := "the time was over before its turn"
				if asked[id] {
					text = "it has not ended in time"
				}
				tell(Ended{ID: id, Left: true, Text: text})
			}
			return
		}
	}
}

// neededBy reports whether one of these processes is after another one, and neither waits for itself.
func (s *Supervisor) neededBy(id process.ID, left map[process.ID]*runner) bool {
	return slices.ContainsFunc(s.order.dependentsOf(id), func(other process.ID) bool {
		r := left[other]
		if r == nil {
			return false
		}
		rec := r.shared.load().Record
		return rec == nil || s.order.cycle(other, peersOf(other, rec.Spec.After)) == nil // somebody must be the first
	})
}

// shutdown is the end of one process in a Shutdown.
type shutdown struct {
	begun  bool
	result chan<- Ended
}

// lives reports whether the instance on record is there.
func (r *runner) lives() bool {
	who := r.proc.Runtime.Process
	if who == nil {
		return false
	}
	alive, _ := r.sup.operator.Processes.Glance(*who)
	return alive
}

// shutDown ends the process unless it is at rest, and tells of its end. It calls itself again at each change of the
// process until then.
func (r *runner) shutDown(ctx context.Context, end *shutdown) {
	who := r.proc.Runtime.Process
	switch {
	case r.proc.Machine.Busy():
		stop := &record.Entry{Op: process.Stop, Ordered: true}
		stop.Actor.User = "the host, which shuts down"
		if r.proc.Machine.Awaits == lifecycle.Launch && r.work.cancel != nil {
			r.work.cancel(operation.EndedBy(stop))
		}
		r.hurry(stop)
	case r.proc.Machine.State == lifecycle.Unknown && r.lives():
		end.result <- Ended{ID: r.id, Left: true, Text: "drover has not looked at it since the agent began"}
		return
	case r.proc.Record == nil || !r.proc.Record.Hosted || r.proc.Machine.State != lifecycle.Running || who == nil ||
		r.claims.rival != 0 || r.hasForeignSupervisor():
		e := Ended{ID: r.id}
		if end.begun {
			e.Text = r.proc.Cause().Text
		}
		end.result <- e
		return
	case end.begun:
		end.result <- Ended{ID: r.id, Left: true, Text: r.proc.Cause().Text}
		return
	case r.mayNotEnd(*who, "would end because the host shuts down,"):
		end.result <- Ended{ID: r.id, Left: true, Text: "the policy of this host does not let drover stop it"}
		return
	default:
		end.begun = true
		r.proc.ShutsDown(time.Now())
		r.step(ctx, lifecycle.Condemned{})
	}
	r.sup.order.next([]process.ID{r.id}, func() {
		r.post(func(ctx context.Context, r *runner) { r.shutDown(ctx, end) })
	})
}
