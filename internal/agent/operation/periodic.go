package operation

import (
	"context"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// A run of a periodic process lasts as long as its start command, or as the process that the command leaves behind. So
// the command has no time limit of its own, and it is the instance of the process while it lasts.

const stepRun = "run"

// firstRun begins a run and watches it through the check time. A run by a timetable may end within that time if it
// succeeds. A single run that has ended is checked like a start, because its callers treat a process that is gone as a
// failure.
func (n *session) firstRun() (notes []string, err error) {
	single := n.spec.Kind() == process.SingleRun
	if n.step(stepRun) == nil {
		if single {
			if problem := n.endRemains(0); problem != "" {
				notes = append(notes, "of its last run "+problem)
			}
		}
		n.mark(nil)
	}
	if err := n.beginRun(); err != nil {
		return nil, err
	}
	st := n.step(stepRun)
	n.checking()
	n.hurry = n.subject.Hurry
	defer func() { n.hurry = nil }()
	death := &deathWatch{session: n}
	defer death.stop()
	death.watch(st.Child)
	if death.watching() && (!single || !n.asksReady()) {
		died, err := death.waitExecuted(st.DoneAt + n.checkTime())
		if err != nil {
			return nil, err
		}
		if !died {
			return append(notes, "the run is under way"), nil
		}
	}
	st.Result = &record.CommandResult{
		Output: n.Commands.Output(st.Run),
		Text:   "ended while the agent was away, exit status unknown",
	}
	if e := death.last; e != nil {
		st.Result.Known, st.Result.Code, st.Result.Text = e.Known, exitCode(*e), e.String()
	}
	if single {
		return notes, n.judgeSingle(st)
	}
	up, seen, err := n.successor(st.Run, n.Clock()+n.checkTime(), nil)
	switch {
	case err != nil:
		return nil, err
	case up:
		n.started(seen, st.Run)
		return append(notes, "the run is under way"), nil
	case !succeeded(st.Result):
		text := join("not alive: the run ended with "+st.Result.Text, n.limitHit(st))
		text = join(text, n.endStarted(st))
		return nil, postCheckAfter(st.Result, string(n.op), n.name(), text, process.CauseRunFailed)
	}
	return append(notes, "the run is over"), nil
}

// judgeSingle checks a single run whose command has ended, or whose spec has a readiness test.
func (n *session) judgeSingle(st *record.Step) error {
	field, _ := n.spec.Starter()
	if !succeeded(st.Result) {
		return n.undo(st, field, nil)
	}
	if !n.asksReady() {
		if n.spec.Foreground() {
			return nil // it has ended with success, and leaves nothing behind that must run
		}
		st.DoneAt = n.Clock()
	}
	seen, why, err := n.upCheck(st, nil)
	switch {
	case err != nil:
		return n.abandon(st, err)
	case why.failed():
		return n.notUp(st, field, why, seen)
	}
	n.started(seen, st.Run)
	return nil
}

// checkTime is how long drover watches a start.
func (n *session) checkTime() time.Duration { return checkTime(n.spec) }

// beginRun releases the start command, once over all entries of the operation, and records it as the instance.
func (n *session) beginRun() error {
	if err := n.beforeStart(); err != nil {
		return err
	}
	st := n.step(stepRun)
	if st == nil {
		n.progress.Steps = append(n.progress.Steps, record.Step{Name: stepRun})
		st = n.step(stepRun)
	}
	if st.Phase != record.Released || n.checkBegun(st) != nil {
		_, line := n.spec.Starter()
		st.DoneAt = n.Clock()
		if err := n.release(st, line, func() bool { return false }); err != nil {
			return err
		}
	}
	child := st.Child
	n.recordSighting(instance.Sighting{ID: &child, Matches: 1, Run: st.Run})
	n.runtime.Run, n.runtime.Outside, n.runtime.LastStartAt = st.Run, false, time.Now().Unix()
	n.ranWith()
	n.runtime.SelfReport.Socket = n.spec.Notifies()
	return nil
}

// checkBegun returns nil if a released step has passed its gate, or still can, and errUnrun otherwise.
func (n *session) checkBegun(st *record.Step) error {
	if alive, _ := n.Processes.Glance(st.Child); alive || n.Commands.Ran(st.Run) {
		return nil
	}
	return n.unrun(st)
}

// successor looks for the process that the command of a run left behind. It looks until the check time is over or no
// process of the run is alive. A background job, for example, may not have executed its program yet. The process must
// not be former, which may be nil or about to end.
func (n *session) successor(run string, until time.Duration,
	former *instance.Identity,
) (up bool, seen instance.Sighting, err error) {
	if n.spec.Foreground() { // the command was the process
		return false, n.findAndRecord(), nil
	}
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		if seen = n.findAndRecord(); seen.Alive() && (former == nil || *seen.ID != *former) {
			return true, seen, nil
		}
		left := n.timeLeft(until)
		if left <= 0 || len(n.Trees.Survivors(instance.Scope{Run: run})) == 0 {
			return false, seen, nil
		}
		if err := n.pause(min(pause, left)); err != nil {
			return false, seen, err
		}
	}
}

// Successor waits for the process that the command of a run left behind, at most for the check time of its spec. It
// returns the last sighting, or fails with ErrInterrupted when ctx ends first.
func (o *Operator) Successor(ctx context.Context, rec record.Record,
	rt record.Runtime,
) (instance.Sighting, error) {
	n := &session{
		Operator: o, ctx: ctx, id: rec.ID, op: process.Query, spec: &rec.Spec,
		subject: Subject{Record: &rec, Runtime: rt}, runtime: rt,
	}
	_, seen, err := n.successor(rt.Run, n.Clock()+n.checkTime(), nil) //nolint:contextcheck // the session carries it
	return seen, err
}

// hasTimetable reports whether the process is hosted as a periodic process.
func (n *session) hasTimetable() bool {
	return n.subject.Hosted() && n.subject.Record.Spec.Kind() == process.Periodic
}

// retry restores the relaunch budget of a hosted process, and starts the process at once if it is down.
func (n *session) retry() (Result, error) {
	rec := n.record()
	if n.subject.Record == nil || !rec.Hosted {
		return Result{},
			process.Errorf(process.Failed,
				"there is nothing to retry: the process is not hosted on this host").Because(process.CauseUnhosted)
	}
	n.spec = &n.subject.Record.Spec
	text := successText("it is being started")
	switch {
	case n.findAndRecord().Alive():
		text = successText("it is running; its budget of relaunches is full again")
	case rec.Spec.Kind() == process.Periodic:
		text = successText("its timetable continues")
	case rec.Spec.Kind() == process.SingleRun:
		text = successText("drover does not start it: the single run has ended, and only a start begins another one")
	}
	rec.Decide(true, rec.Want)
	return Result{
		Outcome: process.Outcome{Text: text, Hosted: true},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
		Restore: true,
		Now:     true,
	}, nil
}
