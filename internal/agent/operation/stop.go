package operation

import (
	"errors"
	"fmt"
	"syscall"

	"drover/internal/agent/liveness"
	"drover/internal/agent/procfs"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// stop runs stop_cmd, or sends SIGTERM where there is none, and takes the process out of hosting once it is gone.
func (n *session) stop() (Result, error) {
	return n.bringDown("stop", "stop_cmd", n.spec.Commands.Stop, n.terminate)
}

// kill runs kill_cmd, or kills the whole tree where there is none, and takes the process out of hosting once it is gone.
func (n *session) kill() (Result, error) {
	return n.bringDown("kill", "kill_cmd", n.spec.Commands.Kill, func(target procfs.Identity) string {
		return n.endTree(target, n.runOf(target))
	})
}

// runOf returns the run that the instance was started in, empty if it was none of ours.
func (n *session) runOf(target procfs.Identity) string {
	if n.runtime.Process == nil || *n.runtime.Process != target {
		return ""
	}
	return n.runtime.Run
}

// terminateSignal is what asks a process to end.
const terminateSignal = syscall.SIGTERM

// terminate asks an instance to end, and says in words what hindered it. One that has gone already has done so.
func (n *session) terminate(target procfs.Identity) string {
	if n.isRun(target) {
		return n.signalRun(target)
	}
	if err := n.Processes.Signal(target, terminateSignal); err != nil && !errors.Is(err, liveness.ErrGone) {
		return fmt.Sprintf("SIGTERM could not be sent to pid %d: %v", target.PID, err)
	}
	return ""
}

func (n *session) bringDown(verb, field, line string, without func(procfs.Identity) string) (Result, error) {
	target, err := n.checked(func(before Sighting) error {
		if !before.Alive() && !n.hasTimetable() {
			return notRunning(verb, n.name())
		}
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	if target == nil {
		return n.withdraw()
	}
	release, err := n.holdOther()
	if err != nil {
		return Result{}, err
	}
	unhost := false
	defer func() { release(unhost) }()

	run := ""
	if n.isRun(*target) {
		run = n.runOf(*target)
	}
	seen, note, err := n.takeDown(verb, field, line, *target, without)
	if err != nil {
		return Result{}, err
	}
	if !seen.Alive() && run != "" {
		note = n.endTree(*target, run)
	}
	if seen.Alive() {
		return Result{}, postCheck(verb, n.name(), n.stillAlive(seen, note), process.CauseStopFailed)
	}
	unhost = true
	rec := n.record()
	rec.Hosted, rec.GivenUp, rec.Want = false, false, process.WantStopped
	if n.subject.Record == nil {
		rec.Spec = *n.spec
	}
	return Result{
		Outcome: process.Outcome{Text: successText(note)},
		Change:  specstore.Change{Put: rec},
		Runtime: n.runtime,
	}, nil
}

// takeDown ends the target, by the command or without one, and waits for it to go. note is what there is to add.
func (n *session) takeDown(verb, field, line string, target procfs.Identity, without func(procfs.Identity) string) (seen Sighting, note string, err error) {
	since := n.Clock()
	if line == "" {
		note = without(target)
	} else {
		st, err := n.command(verb, line)
		if err != nil {
			return Sighting{}, "", err
		}
		if !succeeded(st.Result) {
			return Sighting{}, "", commandFailed(field, st.Result, n.goneButHosted())
		}
		since, note = st.DoneAt, unknownStatus(field, st.Result)
	}
	seen, err = n.stopCheck(target, since)
	return seen, note, err
}

// goneButHosted warns that a failed stop has ended the process although it stays hosted.
func (n *session) goneButHosted() string {
	if n.look().Alive() || !n.subject.Hosted() {
		return ""
	}
	policy := n.subject.Record.Spec.Policy
	if policy.Kind != process.Resident || n.subject.Runtime.Attempts >= policy.StartRetries {
		return "the process is gone, and still hosted"
	}
	return fmt.Sprintf("the process is gone but still hosted: it will be started again in %d s unless it is taken out of hosting", policy.StartInterval)
}

func (n *session) stillAlive(seen Sighting, note string) string {
	text := fmt.Sprintf("still alive: pid %d is there after %d s", seen.ID.PID, n.spec.Policy.StopCheck)
	if note != "" {
		text += "; " + note
	}
	return text
}

// holdOther suspends the watch of another process that is hosted through the same pid file, so that it is not launched
// again under our hands.
func (n *session) holdOther() (release func(unhost bool), err error) {
	other, ok := n.Peers.Hosting(n.id, n.spec, n.runtime.PIDFile)
	if !ok {
		return func(bool) {}, nil
	}
	return n.Peers.Hold(n.ctx, other)
}
