package supervisor

import (
	"strings"
	"syscall"
	"time"

	"drover/internal/agent/lifecycle"
	"drover/internal/agent/liveness"
	"drover/internal/agent/operation"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// happened tells of an event of this process.
func (r *runner) happened(from, to lifecycle.State, e process.Event) {
	e.Process, e.From, e.To = r.id, string(from), string(to)
	if e.At == 0 {
		e.At = time.Now().UnixMilli()
	}
	// The end of a run is known to the millisecond, its begin when somebody got round to it: what is told first comes
	// first. A clock that was set back is another matter.
	if ahead := r.lastEvent.at - e.At; ahead > 0 && ahead < time.Minute.Milliseconds() {
		e.At = r.lastEvent.at
	}
	r.lastEvent.at = e.At
	if r.record != nil {
		e.ReportID = r.record.Spec.ReportID
	}
	r.sup.cfg.Sink.Happened(e)
}

// byPolicy is the actor of what drover does because the spec says so.
func byPolicy() process.Actor { return process.Actor{Kind: process.ActorPolicy} }

// processEnd is how an instance came to its end without an operation. began is in Unix seconds, run the one that it was
// started in; how is nil where nobody saw it.
type processEnd struct {
	pid   int
	how   *process.Exit
	why   process.Cause
	run   string
	began int64
	// words are what the instance wrote last, where that was taken down already, and log the file that they are from;
	// empty where they are its output.
	words, log string
}

// withLastWords returns the end with what the instance wrote last. Where it wrote nothing to its output that is the end
// of its log, as it is before the next instance writes to it.
func (r *runner) withLastWords(was processEnd) processEnd {
	spec := &r.record.Spec
	if spec.Identity.LogPath == "" {
		return was
	}
	if was.run != "" {
		was.words = r.sup.operator.Commands.Output(was.run)
	}
	if strings.TrimSpace(was.words) == "" {
		was.words, was.log = r.sup.operator.Commands.LastWords(spec, time.Unix(was.began, 0)), spec.Identity.LogPath
	}
	return was
}

// emitEnd tells of it.
func (r *runner) emitEnd(from, to lifecycle.State, was processEnd) {
	e := process.Event{
		Kind: process.EventExited, PID: was.pid, Exit: was.how, Cause: was.why,
		Actor: actorOfExit(was.how),
	}
	if was.how != nil {
		e.At = was.how.At
	}
	r.describeRun(&e, was)
	if to != lifecycle.Running && r.closeRun(&e, was.began) {
		r.judgeRun(&e)
	}
	r.attest(&e, was.log)
	r.happened(from, to, e)
	if to == lifecycle.GivenUp {
		r.emitGivenUp(from)
	}
}

// emitEndOf tells of an end: that of a stop that had failed, where asked is one, or else of one by itself.
func (r *runner) emitEndOf(from, to lifecycle.State, was processEnd, asked *specstore.PendingStop) {
	if asked == nil {
		r.emitEnd(from, to, was)
		return
	}
	e := process.Event{PID: was.pid, Exit: was.how, Cause: r.record.Rest, Actor: asked.Actor}
	e.Kind = asked.Op.Info().Event
	e.Actor.Kind, e.Actor.Operation = process.ActorCaller, asked.Item
	if was.how != nil {
		e.At = was.how.At
	}
	r.describeRun(&e, was)
	r.closeRun(&e, was.began)
	r.happened(from, to, e)
}

// emitReplaced tells that an instance has ended and that another one has its place.
func (r *runner) emitReplaced(from, to lifecycle.State, was processEnd) {
	e := process.Event{
		Kind: process.EventReplaced, PID: r.pid(), Exit: was.how,
		Actor: process.Actor{Kind: process.ActorOutside},
	}
	if !r.runtime.Outside {
		e.Actor.Kind = process.ActorSelf
	}
	e.Cause = process.Cause{
		ID:   r.runtime.Cause.ID,
		Text: join(was.why.Text, "pid "+itoa(r.pid())+" has taken the place of pid "+itoa(was.pid)),
	}
	r.describeRun(&e, was)
	r.happened(from, to, e)
}

// emitLeftovers tells of what was ended besides the process.
func (r *runner) emitLeftovers(ended []liveness.Member, actor process.Actor) {
	text := operation.EndedText(ended)
	if text == "" {
		return
	}
	r.sup.cfg.Log.Info("ended left-over processes", "process", r.id, "ended", text)
	r.happened(r.machine.State, r.machine.State, process.Event{
		Kind: process.EventLeftovers, Actor: actor,
		Cause: process.Cause{Text: text},
	})
}

// describeRun adds to the event of an end how long the instance had run and what it wrote.
func (r *runner) describeRun(e *process.Event, was processEnd) {
	if was.began > 0 {
		e.RunTime = max(time.Now().UnixMilli()-was.began*1000, 0)
	}
	e.Output = was.words
	if e.Output == "" && was.run != "" {
		e.Output = r.sup.operator.Commands.Output(was.run)
	}
}

func (r *runner) emitGivenUp(from lifecycle.State) {
	why := r.cause()
	why.Text = givenUpText(&r.runtime, r.machine.Attempts)
	r.happened(from, lifecycle.GivenUp, process.Event{
		Kind: process.EventGivenUp, Cause: why, Actor: byPolicy(),
		Attempt: r.machine.Attempts,
	})
}

// emitFoundAfter tells that another instance was found, in the place of before or, where that is nil, of none.
func (r *runner) emitFoundAfter(from, to lifecycle.State, before *procfs.Identity) {
	if before == nil {
		r.emitFound(from, to)
		return
	}
	r.emitReplaced(from, to,
		processEnd{
			pid: before.PID,
			why: process.Cause{Text: "drover did not see how pid " + itoa(before.PID) + " ended"},
		})
}

// emitFound tells that somebody else has started the process.
func (r *runner) emitFound(from, to lifecycle.State) {
	r.happened(from, to, process.Event{
		Kind: process.EventFound, PID: r.pid(), Cause: r.cause(), Actor: process.Actor{Kind: process.ActorOutside},
	})
}

func (r *runner) emitRelaunched(from, to lifecycle.State, attempt int, why process.Cause) {
	e := process.Event{Kind: process.EventRelaunched, PID: r.pid(), Cause: why, Actor: byPolicy(), Attempt: attempt}
	switch {
	case r.record != nil && r.record.Spec.Policy.Kind == process.Periodic:
		e.Kind, e.Cause = process.EventRunStarted,
			process.Cause{Text: "its timetable has the run at " + r.history.Due.Format(time.RFC3339)}
		r.runBegun()
	case r.runtime.Outside:
		e.Kind, e.Actor, e.Cause = process.EventFound, process.Actor{Kind: process.ActorOutside}, r.cause()
	}
	r.happened(from, to, e)
	r.flapping()
}

func (r *runner) emitRelaunchFailed(from, to lifecycle.State, attempt int, why process.Cause) {
	e := process.Event{Kind: process.EventRelaunchFailed, Cause: why, Actor: byPolicy(), Attempt: attempt}
	if r.record != nil && r.record.Spec.Policy.Kind == process.Periodic {
		e.Kind = process.EventRunFailed
		r.runRefused(why.Text)
	}
	r.happened(from, to, e)
	if to == lifecycle.GivenUp {
		r.emitGivenUp(from)
	}
	r.flapping()
}

// priorState is what was known of a process before an operation.
type priorState struct {
	record  *specstore.Record
	runtime specstore.Runtime
}

// emitOperation tells what an operation has done. One that was not needed, or not allowed to begin, has done nothing.
func (r *runner) emitOperation(entry *specstore.Entry, result operation.Result, was priorState, to lifecycle.State) {
	actor := entry.Actor
	actor.Kind, actor.Operation = process.ActorCaller, entry.Item
	e := process.Event{Actor: actor, PID: r.pid()}
	from, to := r.statesOf(entry.Op, was, to)
	switch result.Outcome.Fault {
	case process.None:
		if e.Kind = entry.Op.Info().Event; e.Kind == "" {
			return
		}
	case process.Failed, process.CheckFailed:
		line, _ := headline(result.Outcome.Text, result.Wrote)
		e.Kind, e.Cause = process.EventFailed, process.Cause{ID: result.Outcome.Cause, Text: line}
		if !binary(result.Wrote) {
			e.Output = result.Wrote
		}
	case process.NotRunning:
		if result.Change.Put == nil {
			return
		}
		e.Kind = entry.Op.Info().Event
		e.Cause = process.Cause{ID: process.CauseStopped, Text: "it was not running, and drover does not relaunch it"}
		r.happened(from, to, e)
		return
	case process.AgentUnavailable, process.AlreadyRunning, process.IllegalOp, process.AlreadyRegistered:
		return
	}
	switch e.Kind {
	case process.EventStopped, process.EventKilled:
		r.emitStopped(&e)
	case process.EventRestarted:
		r.emitRestarted(&e, was.runtime)
	case process.EventUnregistered:
		if p := was.runtime.Process; p != nil {
			e.PID = p.PID
		}
	default:
	}
	known := r.record
	if known == nil && was.record != nil {
		r.record = was.record // the event of a process that was forgotten still bears its report id
		defer func() { r.record = known }()
	}
	r.happened(from, to, e)
	if e.Kind == process.EventStarted || e.Kind == process.EventRestarted || e.Kind == process.EventFailed {
		r.runOfOperation(to)
	}
	r.flapping()
}

// statesOf returns the states before and after an operation, as they were. A process that the agent does not know,
// before the operation or after it, is in the state in which it was left alone all the same.
func (r *runner) statesOf(op process.Op, was priorState, after lifecycle.State) (from, to lifecycle.State) {
	from, to = r.work.prior, after
	switch {
	case op == process.Unregister:
		to = from
	case was.record != nil:
		if from == lifecycle.Unknown && was.runtime.Process != nil { // the agent was started amid the operation
			from = lifecycle.Running
		}
	case op == process.Stop || op == process.Kill:
		from = lifecycle.Running // else it would not have succeeded
	case op != process.Start && op != process.Restart && to == lifecycle.Running:
		from = to // it was found so
	}
	return from, to
}

// emitRestarted adds to the event of a restart what became of the former instance, and which one has its place.
func (r *runner) emitRestarted(e *process.Event, was specstore.Runtime) {
	if was.Process == nil || r.runtime.Process != nil && *r.runtime.Process == *was.Process {
		return
	}
	end := "pid " + itoa(was.Process.PID) + " was ended"
	if e.Exit = r.exitSince(r.work.since); e.Exit != nil {
		end = "pid " + itoa(was.Process.PID) + " " + liveness.Exit{
			Known: e.Exit.Known, Code: e.Exit.Code,
			Signal: syscall.Signal(e.Exit.Signal), CoreDumped: e.Exit.Core,
		}.String()
	}
	e.Cause.Text = end
	if r.runtime.Process != nil {
		e.Cause.Text = join(end, "pid "+itoa(r.pid())+" has its place")
	}
}

// emitStopped adds to the event of a stop how the instance ended.
func (r *runner) emitStopped(e *process.Event) {
	e.Exit = r.exitSince(r.work.since)
	if was := r.runtime.Ended; was != nil {
		e.PID = was.PID
	}
	r.describeRun(e, processEnd{run: r.runtime.Run, began: r.runtime.LastStartAt})
	r.closeRun(e, r.runtime.LastStartAt)
}

// pid is that of the instance; 0 where there is none.
func (r *runner) pid() int {
	if r.runtime.Process == nil {
		return 0
	}
	return r.runtime.Process.PID
}

// flapping tells when the process begins to flap, and when that is over.
func (r *runner) flapping() {
	now := r.tally().Flapping(r.sup.cfg.Bounds, r.now())
	if now == (r.runtime.Flaps != 0) {
		return
	}
	e := process.Event{Kind: process.EventSteady, Actor: byPolicy()}
	r.runtime.Flaps = 0
	if now {
		r.runtime.Flaps = time.Now().UnixMilli()
		e.Kind = process.EventFlapping
		e.Cause = process.Cause{ID: process.CauseFlapping, Text: flappingText(r.sup.cfg.Bounds, r.runtime.Note)}
	}
	r.happened(r.machine.State, r.machine.State, e)
}

func flappingText(b lifecycle.Bounds, note string) string {
	return join("relaunched more than "+process.Count(b.Flaps, "time", "times")+" in "+b.FlapWindow.String(), note)
}

func (r *runner) tally() lifecycle.Tally {
	return lifecycle.Tally{Relaunches: r.runtime.Relaunches, Breaches: r.runtime.Breaches}
}
