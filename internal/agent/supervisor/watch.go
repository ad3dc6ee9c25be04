package supervisor

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/record"
	"drover/internal/agent/story"
	"drover/internal/process"
)

// watchState is the watch on the instance.
type watchState struct {
	stop func() // nil if there is no watch
	// oomPending says that the kernel killed a process of the run, and that drover does not know yet whether the main
	// process is alive.
	oomPending bool
}

// exited handles the end of the watched instance.
func (r *runner) exited(ctx context.Context, who instance.Identity, exit liveness.Exit) {
	if r.proc.Runtime.Process == nil || *r.proc.Runtime.Process != who {
		return
	}
	r.stopWatch()
	how, run := exit.Process(), r.proc.Runtime.Run
	switch kills := r.oomKills(); {
	case exit.Signal == syscall.SIGKILL:
		how.OOM = kills > 0
	case kills > 0:
		r.workersKilled(kills)
	}
	r.proc.Runtime.LastExit = how
	if r.proc.Runtime.Ending == nil {
		output := ""
		if how.Code == 126 || how.Code == 127 { // it tells who has returned that
			output = r.withOutput(story.End{Run: run}).Words
		}
		r.proc.BlameExit(time.Now(), who.PID, how, exit.String(), output)
	}
	if r.proc.Machine.Busy() {
		r.publish() // the operation under way looks for itself
		return
	}
	if r.proc.Runtime.Ending == nil {
		r.proc.NoteLeftRunning(r.leftBy(who, how))
	}
	by, reload := r.sender(how)
	if reload {
		r.proc.EndedByReload()
	}
	was := r.endOf(who, &r.proc.Runtime)
	was.How, was.By, was.Why = how, by, r.proc.Cause()
	if r.goesOn(ctx, was) {
		return
	}
	seen := r.find()
	if !seen.Alive() && run != "" && r.proc.KeepsRuns() {
		r.awaitSuccessor(ctx, who, was)
		return
	}
	r.ended(ctx, who, seen, was)
}

// leftBy returns what a foreground command that has ended with status 0 has left running: it may be a daemon.
func (r *runner) leftBy(who instance.Identity, how *process.Exit) []instance.Identity {
	rec := r.proc.Record
	if rec == nil || !rec.Spec.Foreground() || r.proc.KeepsRuns() || how.Cause() != process.CauseExited {
		return nil
	}
	all := r.sup.operator.Trees.Survivors(instance.Scope{Root: who, Run: r.proc.Runtime.Run})
	others := r.sup.Claimed(r.id, all)
	return slices.DeleteFunc(all, func(p instance.Identity) bool { return p == who || slices.Contains(others, p) })
}

// endOf returns what drover knows of an instance that has ended; rt is from the time when it ran.
func (r *runner) endOf(who instance.Identity, rt *record.Runtime) story.End {
	was := story.End{
		PID: who.PID, Run: rt.Run, Began: rt.LastStartAt, Born: who.StartedAfterBoot(), Usage: r.usage(),
		Health: rt.Health,
	}
	if marks := r.sup.operator.Marks; marks != nil && rt.Run != "" {
		was.Marks = marks(rt.Run)
	}
	return was
}

// awaitSuccessor looks for the process that the command of a run left behind, in a goroutine of its own. Until it
// finds out, drover cannot tell whether the run is over.
func (r *runner) awaitSuccessor(ctx context.Context, who instance.Identity, was story.End) {
	rec, rt := *r.proc.Record, operation.WithSighting(r.proc.Runtime, instance.Sighting{})
	r.step(ctx, lifecycle.CommandEnded{})
	r.sup.goroutines.spawn(func() {
		seen, err := r.sup.operator.Successor(ctx, rec, rt)
		if err != nil {
			return // the agent stops, and the next agent looks for itself
		}
		r.post(func(ctx context.Context, r *runner) {
			if r.proc.Machine.Awaits == lifecycle.Successor && r.proc.Runtime.Process != nil &&
				*r.proc.Runtime.Process == who {
				r.ended(ctx, who, seen, was)
			}
		})
	})
}

// ended continues after the end of an instance; seen is the sighting after that end.
func (r *runner) ended(ctx context.Context, who instance.Identity, seen instance.Sighting, was story.End) {
	if seen.Run != "" && seen.Run == r.proc.Runtime.Run && r.proc.Record.Spec.Foreground() {
		r.follows(seen)
	} else {
		r.recordSighting(seen)
	}
	if seen.Alive() {
		if r.proc.KeepsRuns() && was.Run != "" {
			// The process that the command left behind continues the run.
			r.proc.Runtime.Run, r.proc.Runtime.Outside, r.proc.Runtime.LastStartAt = was.Run, false, was.Began
			r.proc.Clear()
			r.proc.Runtime.Note = "the run goes on as pid " + strconv.Itoa(seen.ID.PID)
			r.step(ctx, lifecycle.Found{})
			return
		}
		if !r.proc.Runtime.Outside { // another instance has its place, as after an upgrade of the program
			r.proc.Clear()
		}
		r.stepAndTell(ctx, lifecycle.Found{}, func(c story.Change) []process.Event {
			return []process.Event{r.proc.Replaced(c, r.withOutput(was))}
		})
		return
	}
	r.claim() // if the rival has gone, this drover takes the process over
	asked := r.takePendingStop(false)
	was = r.withLastWords(was)
	r.failsBy()
	r.stepAndTell(ctx, r.exitOf(was.How), func(c story.Change) []process.Event {
		r.sup.cfg.Log.Info("process ended", "process", r.id, "pid", who.PID, "how", was.Why.Text)
		return r.proc.Ended(c, r.withOutput(was), asked)
	})
	r.sweepAfter(ctx, asked)
}

// failsBy notes the end of a run. An end of another kind than the one before begins an outage of its own.
func (r *runner) failsBy() {
	rt := &r.proc.Runtime
	by := string(rt.Cause.ID)
	if rt.LastExit != nil {
		by += ": " + liveness.ExitOf(rt.LastExit).String()
	}
	if by != rt.FailingBy {
		rt.Failing, rt.FailingBy = 0, by
	}
}

// sentSignal is a signal that an operation has sent to the process, or a reload that it did not survive. An end between
// at and until is its effect, in Unix milliseconds.
type sentSignal struct {
	number    int // 0 is any end
	at, until int64
	by        process.Actor
	reload    bool
}

// effect is how long after a signal an end by the same signal is the effect of it.
const effect = 5 * time.Second

// sender returns the caller of the operation that has ended the process, nil if there is none, and whether it was a
// reload.
func (r *runner) sender(how *process.Exit) (by *process.Actor, reload bool) {
	s := r.sent
	if r.sent = nil; s == nil || s.number != 0 && how.Signal != s.number || how.At < s.at || how.At > s.until {
		return nil, false
	}
	return &s.by, s.reload
}

// goneUnseen continues after an end that drover did not see; away says that no agent was running.
func (r *runner) goneUnseen(ctx context.Context, pid int, away bool) {
	r.proc.Runtime.LastExit = &process.Exit{At: time.Now().UnixMilli()}
	was := r.withLastWords(story.End{
		PID: pid, Why: r.proc.Cause(), Run: r.proc.Runtime.Run, Began: r.proc.Runtime.LastStartAt,
	})
	asked := r.takePendingStop(away)
	r.failsBy()
	r.stepAndTell(ctx, lifecycle.NotFound{}, func(c story.Change) []process.Event {
		return r.proc.Ended(c, r.withOutput(was), asked)
	})
	r.sweepAfter(ctx, asked)
}

// endedBefore notes and tells the end of an instance that an earlier agent has relaunched. A relaunch waits for
// neither, so that agent may have died before it did.
func (r *runner) endedBefore() {
	who := *r.proc.Runtime.Process
	r.proc.Runtime.LastExit = &process.Exit{At: time.Now().UnixMilli()}
	r.proc.BlameAbsence(time.Now(), instance.Sighting{}, &who)
	was := r.withOutput(story.End{
		PID: who.PID, Why: r.proc.Cause(), Run: r.proc.Runtime.Run, Began: r.proc.Runtime.LastStartAt,
	})
	r.recordSighting(instance.Sighting{})
	r.failsBy()
	c := r.unchanged()
	c.From, c.To = lifecycle.Running, lifecycle.Starting
	r.tell(r.proc.Ended(c, was, nil)...)
}

// followNewInstance watches a new instance that a look found in place of before; before may be nil.
func (r *runner) followNewInstance(ctx context.Context, before *instance.Identity) {
	r.stepAndTell(ctx, lifecycle.Found{}, func(c story.Change) []process.Event {
		return []process.Event{r.proc.InstanceFound(c, before)}
	})
}

// refresh is relist for a query. It looks at the expected instance at once and returns its description, or nil if that
// instance is not there.
func (r *runner) refresh(ctx context.Context) *process.Instance {
	if r.proc.Machine.State == lifecycle.Running && r.proc.Machine.Awaits != lifecycle.Successor &&
		r.proc.Record != nil && r.proc.Runtime.Process != nil {
		if i, moved, err := r.sup.operator.Processes.Instance(*r.proc.Runtime.Process); err == nil {
			r.cancelMissed(ctx)
			if moved {
				r.sup.cfg.Sink.Changed(r.id)
			}
			return &i
		}
	}
	r.relist(ctx)
	return nil
}

// cancelMissed cancels a Missed event.
func (r *runner) cancelMissed(ctx context.Context) {
	if r.proc.Machine.Awaits == lifecycle.Notice {
		r.step(ctx, lifecycle.Seen{})
	}
}

// relist compares the agent's state with /proc.
func (r *runner) relist(ctx context.Context) {
	m := &r.proc.Machine
	if m.Busy() || r.proc.Record == nil || m.Awaits == lifecycle.Successor {
		return
	}
	if r.sup.isConfirmed(r) {
		r.cancelMissed(ctx)
		return
	}
	before := r.proc.Runtime.Process
	if before != nil && r.watchState.stop != nil && m.Awaits != lifecycle.Notice {
		// The watch is about to report the end. If it does not, the next relist decides.
		r.step(ctx, lifecycle.Missed{})
		return
	}
	seen := r.find()
	r.recordSighting(seen)
	switch {
	case seen.Alive() && (before == nil || *before != *seen.ID):
		r.followNewInstance(ctx, before)
	case !seen.Alive() && before != nil:
		r.proc.BlameUnseen(time.Now(), before.PID)
		r.goneUnseen(ctx, before.PID, false)
	}
}

// find looks for the instance of the process, as its record says; the zero value without a record.
func (r *runner) find() instance.Sighting {
	if r.proc.Record == nil {
		return instance.Sighting{}
	}
	rt := r.proc.Runtime
	if rt.Ending != nil || r.proc.Record.PendingStop != nil {
		rt.Signalled = nil // nothing of the run is to go on
	}
	return r.sup.operator.Look(r.id, &r.proc.Record.Spec, rt)
}

// recordSighting stores what a look has found in the runtime.
func (r *runner) recordSighting(seen instance.Sighting) {
	r.proc.Runtime = operation.WithSighting(r.proc.Runtime, seen)
	if seen.Alive() && r.proc.Runtime.Outside {
		r.proc.BlameOutside(time.Now(), "")
	}
}

func (r *runner) stopWatch() {
	if r.watchState.stop != nil {
		r.watchState.stop()
		r.watchState.stop = nil
		r.watched.Store(false)
	}
}

// watch follows the current instance.
func (r *runner) watch() {
	r.stopWatch()
	who := *r.proc.Runtime.Process
	stop, err := r.sup.operator.Processes.Watch(who, func(e liveness.Exit) {
		r.post(func(ctx context.Context, r *runner) { r.exited(ctx, who, e) })
	})
	switch {
	case errors.Is(err, liveness.ErrGone):
		unseen := liveness.Exit{At: time.Now()}
		r.post(func(ctx context.Context, r *runner) { r.exited(ctx, who, unseen) })
	case err != nil:
		r.sup.cfg.Log.Error("cannot watch process, relying on the regular listing", "process", r.id, "pid", who.PID,
			"error", err)
	default:
		r.watchState.stop = stop
		r.watched.Store(true)
	}
}
