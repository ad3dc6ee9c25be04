package operation

import (
	"errors"
	"fmt"
	"time"

	"drover/internal/agent/liveness"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// A run of a periodic process lasts as long as its start command, or the process that the command leaves behind. So the
// command has no time limit of its own, and while it lasts it is the instance of the process.

const stepRun = "run"

// startRun runs a periodic process now and hosts its timetable. A run that ends within the check time must end well.
func (n *session) startRun() (Result, error) {
	_, err := n.checked(n.mayStart)
	if err != nil {
		return Result{}, err
	}
	note, err := n.firstRun()
	if err != nil {
		return Result{}, err
	}
	return n.hosted(note)
}

// firstRun begins a run and watches it through the check time.
func (n *session) firstRun() (note string, err error) {
	if err := n.beginRun(); err != nil {
		return "", err
	}
	st := n.step(stepRun)
	policy := n.spec.Policy
	end := st.DoneAt + seconds(max(policy.StartCheckBegin, policy.StartCheckEnd))
	death := &deathWatch{session: n}
	defer death.stop()
	death.watch(st.Child)
	if death.watching() {
		died, err := death.wait(end)
		if err != nil {
			return "", err
		}
		if !died {
			return "the run is under way", nil
		}
	}
	seen := n.look()
	if seen.Alive() {
		n.started(seen, st.Run)
		return "the run is under way", nil
	}
	result := &specstore.CommandResult{Output: n.Commands.Output(st.Run)}
	if death.last != nil && death.last.Known && exitCode(*death.last) != 0 {
		text := fmt.Sprintf("not alive: the run ended with %s", death.last)
		return "", postCheck(string(n.op), n.name(), withOutput(text, result), process.CauseRunFailed)
	}
	return "the run is over", nil
}

// beginRun lets the start command run, once over all entries of the operation, and takes it for the instance.
func (n *session) beginRun() error {
	st := n.step(stepRun)
	if st == nil {
		n.progress.Steps = append(n.progress.Steps, specstore.Step{Name: stepRun})
		st = n.step(stepRun)
	}
	if st.Phase != specstore.Released || !n.begun(st) {
		st.DoneAt = n.Clock()
		if err := n.release(st, n.spec.Commands.Start, func() bool { return false }); err != nil {
			return err
		}
	}
	child := st.Child
	n.sighted(Sighting{ID: &child, Matches: 1})
	n.runtime.Run, n.runtime.Outside, n.runtime.LastStartAt = st.Run, false, time.Now().Unix()
	return nil
}

// begun reports whether a step that was noted as released has passed its gate, or still may.
func (n *session) begun(st *specstore.Step) bool {
	if alive, _ := n.Processes.Glance(st.Child); alive || n.Commands.Ran(st.Run) {
		return true
	}
	n.Commands.Discard(st.Run)
	return false
}

// withdraw takes the timetable of a periodic process away where no run is under way.
func (n *session) withdraw() (Result, error) {
	rec := n.record()
	rec.Hosted, rec.GivenUp, rec.Want = false, false, process.WantStopped
	return Result{
		Outcome: process.Outcome{Text: successText("no run was under way, and there will be none")},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
	}, nil
}

// hasTimetable reports whether the process is hosted as a periodic one.
func (n *session) hasTimetable() bool {
	return n.subject.Hosted() && n.subject.Record.Spec.Policy.Kind == process.Periodic
}

// isRun reports whether the instance is a start command of ours, which lasts as long as the run.
func (n *session) isRun(target procfs.Identity) bool {
	return n.spec.Policy.Kind == process.Periodic && n.runOf(target) != ""
}

// restartRun ends the run that is under way, if there is one, and begins another.
func (n *session) restartRun(before *procfs.Identity) (Result, error) {
	if before != nil && n.step(stepRun) == nil {
		seen, note, err := n.takeDown("stop", "stop_cmd", n.spec.Commands.Stop, *before, n.terminate)
		if err != nil {
			return Result{}, err
		}
		if seen.Alive() {
			return Result{}, postCheck("restart", n.name(), n.stillAlive(seen, note), process.CauseStopFailed)
		}
	}
	note, err := n.firstRun()
	if err != nil {
		return Result{}, err
	}
	return n.hosted(note)
}

// retry restores the budget of a hosted process, and has it started at once if it is down.
func (n *session) retry() (Result, error) {
	rec := n.record()
	if n.subject.Record == nil || !rec.Hosted {
		return Result{}, process.Errorf(process.Failed, "there is nothing to retry: the process is not hosted on this host").Because(process.CauseUnhosted)
	}
	n.spec = &n.subject.Record.Spec
	text := successText("it is being started")
	switch {
	case n.look().Alive():
		text = successText("it is running; its budget of relaunches is full again")
	case rec.Spec.Policy.Kind == process.Periodic:
		text = successText("it goes on by its timetable")
	case rec.Spec.Policy.Kind == process.SingleRun:
		text = successText("it is not started: a single run is over, and only a start begins another one")
	}
	rec.GivenUp = false
	return Result{
		Outcome: process.Outcome{Text: text, Hosted: true},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
		Restore: true,
		Now:     true,
	}, nil
}

// signalRun asks a start command and what it has started to end.
func (n *session) signalRun(target procfs.Identity) string {
	if err := n.Processes.SignalGroup(target, terminateSignal); err != nil && !errors.Is(err, liveness.ErrGone) {
		return fmt.Sprintf("SIGTERM could not be sent to the run of pid %d: %v", target.PID, err)
	}
	return ""
}
