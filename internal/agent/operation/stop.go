package operation

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/clip"
	"drover/internal/process"
)

// stop runs stop_cmd, or sends SIGTERM if stop_cmd is empty. It unhosts the process once the process and the leftovers
// of its run are gone.
func (n *session) stop() (Result, error) {
	return n.bringDown(endMethod{
		verb: "stop", field: "stop_cmd", line: n.spec.Stop, without: n.terminate,
		grace: true,
	})
}

// kill runs kill_cmd, or kills the whole tree if kill_cmd is empty. It unhosts the process once the process is gone.
func (n *session) kill() (Result, error) {
	return n.bringDown(endMethod{verb: "kill", field: "kill_cmd", line: n.spec.KillCommand(), without: n.forceKill})
}

// endMethod is a way to end a process.
type endMethod struct {
	verb, field, line string
	// without ends the process if line is empty; it returns in words what went wrong.
	without func(instance.Identity) string
	// grace says that the leftovers of the run get SIGTERM before SIGKILL.
	grace bool
}

// stopMethod is the way in which drover itself ends a process: a stop.
func (n *session) stopMethod() endMethod {
	return endMethod{verb: "stop", field: "stop_cmd", line: n.spec.Stop, without: n.terminate, grace: true}
}

// runOf returns the run that the instance was started in; empty if it is not a run of drover.
func (n *session) runOf(target instance.Identity) string {
	if n.runtime.Process == nil || *n.runtime.Process != target {
		return ""
	}
	return n.runtime.Run
}

// terminate sends SIGTERM to an instance.
func (n *session) terminate(target instance.Identity) string {
	return n.askToEnd(target, syscall.SIGTERM)
}

// askToEnd sends a signal of a stop, and SIGCONT so that a stopped process receives it.
func (n *session) askToEnd(target instance.Identity, sig syscall.Signal) string {
	if problem := n.signal(target, sig); problem != "" {
		return problem
	}
	return n.signal(target, syscall.SIGCONT)
}

// forceKill kills an instance, and also its run unless the spec says otherwise.
func (n *session) forceKill(target instance.Identity) string {
	if n.mainOnly() {
		return n.signal(target, syscall.SIGKILL)
	}
	problem, _ := n.endScope(n.scopeOf(target, n.runOf(target)), 0)
	return problem
}

// signal sends a signal, and returns in words what went wrong. An instance that is already gone needs no signal.
func (n *session) signal(target instance.Identity, sig syscall.Signal) string {
	if err := n.Processes.Signal(target, sig); err != nil && !errors.Is(err, liveness.ErrGone) {
		return fmt.Sprintf("SIG%s could not be sent to pid %d: %v", process.SignalName(int(sig)), target.PID, err)
	}
	return ""
}

func (n *session) bringDown(way endMethod) (Result, error) {
	target, err := n.checked(func(instance.Sighting) error { return nil })
	if err != nil {
		return Result{}, err
	}
	if target == nil {
		return n.alreadyDown(way.verb)
	}
	if err := n.proven(way, *target); err != nil {
		return Result{}, err
	}
	foreign := n.foreign(*target)
	release, shared, err := n.holdOther(way.verb)
	if err != nil {
		return Result{}, err
	}
	fate := Untouched
	defer func() { release(fate) }()

	down, err := n.takeDown(way, *target)
	if err != nil {
		return Result{}, err
	}
	if down.err != nil && down.sighting.Alive() {
		fate = AskedToo
		r := n.failed(down.err)
		r.StopPending = true
		return r, nil
	}
	fate = Down
	if down.err != nil {
		return n.outOfHosting(n.failed(down.err)), nil
	}
	return Result{
		Outcome: process.Outcome{Text: successText(down.note, foreign, shared, EndedText(n.ended))},
		Change:  specstore.Change{Put: n.unhosted()},
		Runtime: n.runtime,
	}, nil
}

// outOfHosting makes a failed result unhost the process, because the process is gone.
func (n *session) outOfHosting(r Result) Result {
	r.Outcome.Hosted = false
	if n.subject.Hosted() {
		r.Change = specstore.Change{Put: n.unhosted()}
	}
	return r
}

// proven rejects the end of an instance that drover did not start and whose name alone does not prove that it is the
// process. A stop command of the spec is the caller's responsibility and may run.
func (n *session) proven(way endMethod, target instance.Identity) error {
	if way.line != "" || n.runtime.Run != "" || n.runtime.PIDFile != "" || n.runtime.Adopted {
		return nil
	}
	if n.spec.ByName() {
		return unproven(way.verb, target.PID, "drover start --take-over makes it the process")
	}
	if doubt := n.Look(n.id, n.spec, record.Runtime{}).Doubt; doubt != "" {
		return unproven(way.verb, target.PID, doubt)
	}
	return nil
}

// foreign describes an instance that drover did not start and knows only by its name.
func (n *session) foreign(target instance.Identity) string {
	drovers := n.runtime.Adopted && !n.runtime.Outside // it was born in a run of drover
	if n.runtime.Run != "" || n.runtime.PIDFile != "" || drovers {
		return ""
	}
	i, _, err := n.Processes.Instance(target)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("drover had not started it: pid %d, since %s, %s", i.PID,
		time.Unix(i.StartedAt, 0).UTC().Format(time.RFC3339), i.Cmdline)
}

// unhosted returns the record of the process with the hosting flag off.
func (n *session) unhosted() *record.Record {
	rec := n.record()
	rec.Decide(false, process.WantStopped)
	if n.subject.Record == nil {
		rec.Spec = *n.spec
	}
	return rec
}

// alreadyDown unhosts a process that does not run, and ends the leftovers of its last run. It reports "no need" if
// there was nothing to end and no timetable to take away; in drover's own API, also no relaunch.
func (n *session) alreadyDown(verb string) (Result, error) {
	timetable := n.hasTimetable()
	problem := n.endRemains(n.spec.StopCheck())
	r := Result{Runtime: n.runtime}
	switch {
	case problem != "":
		r = n.failed(postCheck(verb, n.name(), "of its last run "+problem, process.CauseStopFailed))
	case len(n.ended) > 0:
		r.Outcome.Text = successText("it was not running", EndedText(n.ended))
	case n.subject.Overtook:
		r.Outcome.Text = successText("the operation under way was ended")
	case timetable:
		r.Outcome.Text = successText("no run was under way, and no further run follows")
	case n.own() && n.subject.Hosted() && !n.subject.Record.Finished && !n.subject.Record.GivenUp:
		r.Outcome.Text = successText("it was not running, and drover does not relaunch it")
	default:
		r = n.failed(n.notRunning(verb, n.name()))
	}
	return n.outOfHosting(r), nil
}

// endResult is the result of an attempt to end a process.
type endResult struct {
	// sighting is the instance that runs now.
	sighting instance.Sighting
	// err says in a caller's words what went wrong; note is an addition to a success.
	err  error
	note string
}

// takeDown ends the target with the command or the function of way, waits until it is gone, and ends the leftovers of
// its run. The error says why drover could not try.
func (n *session) takeDown(way endMethod, target instance.Identity) (endResult, error) {
	run := n.runOf(target)
	n.recordMembers(target)
	since, down := n.Clock(), endResult{}
	if way.grace && n.spec.Compat == nil {
		return n.stopBySteps(way, target, run)
	}
	if way.line == "" {
		down.note = way.without(target)
	} else {
		st, err := n.command(way.verb, way.line)
		if err != nil {
			return endResult{}, err
		}
		if !succeeded(st.Result) {
			down.err = n.commandFailed(way.field, st.Result, "")
			if down.sighting = n.findAndRecord(); down.sighting.Alive() {
				return down, nil
			}
		}
		since, down.note = st.DoneAt, n.unknownStatus(way.field, st.Result)
		n.recordMembers(target) // what the instance has started meanwhile
	}
	if down.err == nil {
		var err error
		if down.sighting, err = n.stopCheck(target, since+n.spec.StopCheck()); err != nil {
			return endResult{}, err
		}
	}
	if down.sighting.Alive() {
		text := n.stillAlive(down.sighting, n.spec.StopCheck(), down.note)
		down.err = postCheck(string(n.op), n.name(), text, process.CauseStopFailed)
		return down, nil
	}
	problem := ""
	switch {
	case n.mainOnly():
		down.note = join(down.note, n.spared(target, run))
	case way.line == "" && !way.grace: // the tree is already dead
		problem, down.note = down.note, ""
	case way.grace:
		problem, _ = n.endScope(n.scopeOf(target, run), since+n.spec.StopCheck()-n.Clock())
	default:
		problem, _ = n.endScope(n.scopeOf(target, run), 0)
	}
	n.findAndRecord()
	if problem != "" && down.err == nil {
		text := fmt.Sprintf("pid %d is gone, but drover %s", target.PID, problem)
		down.err = postCheck(string(n.op), n.name(), text, process.CauseStopFailed)
	}
	return down, nil
}

// stopBySteps is takeDown by the StopPolicy of the spec: the stop command, then each signal with its time. The
// leftovers of the run get SIGTERM, and SIGKILL when the process would have got it.
func (n *session) stopBySteps(way endMethod, target instance.Identity, run string) (down endResult, err error) {
	if down.note, err = n.beforeStop(); err != nil {
		return down, err
	}
	begun := n.Clock()
	down.sighting = instance.Sighting{ID: &target}
	failed := ""
	if way.line != "" {
		if failed, err = n.stopCommand(way, target, &down); err != nil {
			return down, err
		}
	}
	end, err := n.sendSignals(way, failed, &down)
	if err != nil {
		return down, err
	}
	if down.sighting.Alive() {
		text := n.stillAlive(down.sighting, (n.Clock() - begun).Round(time.Second), down.note)
		down.err = postCheck(string(n.op), n.name(), text, process.CauseStopFailed)
		return down, nil
	}
	if n.mainOnly() {
		down.note = join(down.note, n.spared(target, run))
	} else if problem, _ := n.endScope(n.scopeOf(target, run), max(end-n.Clock(), 0)); problem != "" {
		text := fmt.Sprintf("pid %d is gone, but drover %s", target.PID, problem)
		down.err = postCheck(string(n.op), n.name(), text, process.CauseStopFailed)
	}
	n.findAndRecord()
	return down, nil
}

// stopCommand runs the stop command, and waits for the end of the target, unless the command has failed. It returns how
// the command has failed; empty if it has not.
func (n *session) stopCommand(way endMethod, target instance.Identity, down *endResult) (failed string, err error) {
	st, err := n.command(way.verb, way.line)
	if err != nil {
		return "", err
	}
	until := st.DoneAt + n.spec.StopLimit()
	if !succeeded(st.Result) {
		failed, until = n.commandFailed(way.field, st.Result, "").Error(), st.DoneAt
	}
	n.recordMembers(target) // what the instance has started meanwhile
	down.sighting, err = n.stopCheck(target, until)
	return failed, err
}

// sendSignals sends the signals of the spec while the instance lives, and notes why each was needed. It returns when
// the last one would have been over.
func (n *session) sendSignals(way endMethod, failed string, down *endResult) (end time.Duration, err error) {
	reason := failed
	if reason == "" && way.line != "" {
		reason = "it did not end within " + shortly(n.spec.StopLimit()) + " of the stop command"
	}
	end = n.Clock()
	for _, s := range n.spec.Signals() {
		wait := time.Duration(s.Wait)
		if wait == 0 {
			wait = endTime
		}
		if !down.sighting.Alive() {
			if s.Signal == "KILL" {
				break // from here on the leftovers get it, too
			}
			end += wait
			continue
		}
		end += wait
		if reason != "" {
			down.note, failed = join(down.note, reason+"; drover "+sends(s.Signal)), ""
		}
		reason = "it did not end within " + shortly(wait) + " of " + s.Signal
		down.note = join(down.note, n.sendStop(s.Signal, *down.sighting.ID))
		if down.sighting, err = n.stopCheck(*down.sighting.ID, n.Clock()+wait); err != nil {
			return end, err
		}
	}
	down.note = join(down.note, failed)
	return end, nil
}

// sends says in words that a stop sends a signal.
func sends(signal string) string {
	if signal == "KILL" {
		return "killed it"
	}
	return "sent " + signal
}

// sendStop sends one signal of a stop. KILL also ends the rest of the run, unless the spec says otherwise.
func (n *session) sendStop(name string, target instance.Identity) string {
	if name == "KILL" {
		return n.forceKill(target)
	}
	return n.askToEnd(target, syscall.Signal(process.SignalNumber(name)))
}

// stillAlive names what a stop could not end.
func (n *session) stillAlive(seen instance.Sighting, after time.Duration, note string) string {
	line := ""
	if i, _, err := n.Processes.Instance(*seen.ID); err == nil && i.Cmdline != "" {
		line = " [" + clip.Marked(i.Cmdline, maxNamedLine, " ...") + "]"
	}
	return join(fmt.Sprintf("still alive: pid %d%s is there after %s", seen.ID.PID, line, shortly(after)), note)
}

// maxNamedLine bounds a command line in a message, in bytes.
const maxNamedLine = 100

// holdOther suspends the watch of another process that is hosted through the same pid file, so that drover does not
// relaunch that process meanwhile. note names it. Rights belong to a namespace: a process of another namespace ends
// only under its own name.
func (n *session) holdOther(verb string) (release func(PeerEffect), note string, err error) {
	other, ok := n.peers.Hosting(n.id, n.spec, n.runtime.PIDFile)
	if !ok {
		return func(PeerEffect) {}, "", nil
	}
	if other.Namespace != n.id.Namespace {
		return nil, "",
			process.Errorf(process.Failed, "nothing was done: the process is hosted as %s: %s it under that name",
				other, verb).
				Because(process.CauseOwnedByOther)
	}
	release, err = n.peers.Hold(n.ctx, other)
	return release, fmt.Sprintf("it was also hosted as %s, and no longer is", other), err
}
