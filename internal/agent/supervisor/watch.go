package supervisor

import (
	"context"
	"errors"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/lifecycle"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// watchState is the watch on the instance.
type watchState struct {
	stop func() // nil where there is none
	// unconfirmed says that the process was not seen any more, while its watch has not told of its end.
	unconfirmed bool
	// awaitsSuccessor says that the process is looked for that the command of a run may have left behind.
	awaitsSuccessor bool
	// oomPending says that the kernel has ended something of the run, and that it is not known yet whether the main
	// process lives on.
	oomPending bool
}

// exited takes in the end of the watched instance.
func (r *runner) exited(ctx context.Context, who procfs.Identity, exit liveness.Exit) {
	if r.runtime.Process == nil || *r.runtime.Process != who {
		return
	}
	r.stopWatch()
	how, run, began := exit.Process(), r.runtime.Run, r.runtime.LastStartAt
	switch kills := r.oomKills(); {
	case exit.Signal == syscall.SIGKILL:
		how.OOM = kills > 0
	case kills > 0:
		r.workersEnded(kills)
	}
	r.runtime.LastExit = how
	if r.runtime.Ending == nil {
		r.blameEnd(how.Cause(), "pid "+itoa(who.PID)+" "+exit.String()+oomNote(how)+" at "+
			exit.At.UTC().Format(time.RFC3339))
	}
	if r.work.busy {
		r.publish() // an operation holds the process: it looks for itself
		return
	}
	cause := r.cause()
	seen := r.look()
	if !seen.Alive() && run != "" && r.keepsHistory() {
		r.awaitSuccessor(ctx, who, how, cause)
		return
	}
	r.ended(ctx, who, seen, processEnd{pid: who.PID, how: how, why: cause, run: run, began: began})
}

// awaitSuccessor looks for the process that the command of a run has left behind, beside the goroutine of run: until
// then nobody can tell whether the run is over.
func (r *runner) awaitSuccessor(ctx context.Context, who procfs.Identity, how *process.Exit, cause process.Cause) {
	was := processEnd{pid: who.PID, how: how, why: cause, run: r.runtime.Run, began: r.runtime.LastStartAt}
	rec, rt := *r.record, operation.Sighted(r.runtime, instance.Sighting{})
	r.watchState.awaitsSuccessor = true
	r.sup.goroutines.spawn(func() {
		seen, err := r.sup.operator.Successor(ctx, rec, rt)
		if err != nil {
			return // the agent stops, and its successor looks for itself
		}
		r.post(func(ctx context.Context, r *runner) {
			r.watchState.awaitsSuccessor = false
			if !r.work.busy && r.record != nil && r.runtime.Process != nil && *r.runtime.Process == who {
				r.ended(ctx, who, seen, was)
			}
		})
	})
}

// ended goes on after the end of an instance, with what was seen in its place.
func (r *runner) ended(ctx context.Context, who procfs.Identity, seen instance.Sighting, was processEnd) {
	r.sighted(seen)
	if seen.Alive() {
		if r.keepsHistory() && was.run != "" {
			// The command has left the process of its run behind.
			r.runtime.Run, r.runtime.Outside, r.runtime.LastStartAt = was.run, false, was.began
			r.runtime.Note, r.runtime.Cause = "the run goes on as pid "+itoa(seen.ID.PID), process.Cause{}
			r.step(ctx, lifecycle.Found{})
			return
		}
		r.stepAndEmit(ctx, lifecycle.Found{}, func(from, to lifecycle.State) { r.emitReplaced(from, to, was) })
		return
	}
	r.claim() // a rival that has gone leaves the process to this drover
	asked := r.takePendingStop(false)
	was = r.withLastWords(was)
	r.stepAndEmit(ctx, lifecycle.Exited{}, func(from, to lifecycle.State) {
		r.sup.cfg.Log.Info("process ended", "process", r.id, "pid", who.PID, "how", was.why.Text)
		r.emitEndOf(from, to, was, asked)
	})
	r.sweepAfter(ctx, asked)
}

// refresh is relist for somebody who asks: what runs as it is believed to is looked at once, and told of; nil where
// that is not so.
func (r *runner) refresh(ctx context.Context) *process.Instance {
	if r.machine.State == lifecycle.Running && !r.work.busy && r.record != nil && !r.watchState.awaitsSuccessor &&
		r.runtime.Process != nil {
		if i, moved, err := r.sup.operator.Processes.Instance(*r.runtime.Process); err == nil {
			r.watchState.unconfirmed = false
			if moved {
				r.sup.cfg.Sink.Changed(r.id)
			}
			return &i
		}
	}
	r.relist(ctx)
	return nil
}

// relist compares what is believed with what is there.
func (r *runner) relist(ctx context.Context) {
	if r.work.busy || r.record == nil || r.watchState.awaitsSuccessor || r.sup.isConfirmed(r) {
		r.watchState.unconfirmed = false
		return
	}
	before := r.runtime.Process
	if before != nil && r.watchState.stop != nil && !r.watchState.unconfirmed {
		// Its watch is about to tell how it ended. If not, the next look counts.
		r.watchState.unconfirmed = true
		return
	}
	r.watchState.unconfirmed = false
	seen := r.look()
	r.sighted(seen)
	switch {
	case seen.Alive() && (before == nil || *before != *seen.ID):
		r.stepAndEmit(ctx, lifecycle.Found{}, func(from, to lifecycle.State) { r.emitFoundAfter(from, to, before) })
	case !seen.Alive() && before != nil:
		r.unseen(before.PID)
		gone := r.withLastWords(processEnd{
			pid: before.PID, why: r.cause(), run: r.runtime.Run,
			began: r.runtime.LastStartAt,
		})
		asked := r.takePendingStop(false)
		r.stepAndEmit(ctx, lifecycle.NotFound{}, func(from, to lifecycle.State) { r.emitEndOf(from, to, gone, asked) })
		r.sweepAfter(ctx, asked)
	}
}

// unseen notes an end of which nobody knows how it was.
func (r *runner) unseen(pid int) {
	r.runtime.LastExit = &process.Exit{At: time.Now().UnixMilli()}
	r.blameEnd(process.CauseUnseen, "pid "+itoa(pid)+" ended, and drover did not see how")
}

func (r *runner) look() instance.Sighting {
	if r.record == nil {
		return instance.Sighting{}
	}
	return r.sup.operator.Look(r.id, &r.record.Spec, r.runtime)
}

func (r *runner) sighted(seen instance.Sighting) {
	r.runtime = operation.Sighted(r.runtime, seen)
	if seen.Alive() && r.runtime.Outside {
		r.blame(process.CauseOutside, startedFromOutside(seen.ID.PID))
	}
}

// stopWatch ends the watch, if there is one.
func (r *runner) stopWatch() {
	if r.watchState.stop != nil {
		r.watchState.stop()
		r.watchState.stop = nil
	}
}

// watch follows the instance that was seen last.
func (r *runner) watch() {
	r.stopWatch()
	who := *r.runtime.Process
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
	}
}
