package operation

import (
	"drover/internal/process"
)

// restart runs restart_cmd, or stops and starts the process where there is none, and leaves it hosted. Nothing needs to
// run before.
func (n *session) restart() (Result, error) {
	commands := n.spec.Commands
	before, err := n.checked(func(Sighting) error {
		if commands.Restart == "" && commands.Start == "" {
			return process.Errorf(process.Failed, "restart_cmd is empty, and start_cmd is empty too: nothing was done")
		}
		return n.mayHost("")
	})
	if err != nil {
		return Result{}, err
	}
	if n.spec.Policy.Kind == process.Periodic && commands.Start != "" {
		return n.restartRun(before)
	}
	if commands.Restart != "" {
		notes, err := n.bringUp("restart", "restart_cmd", commands.Restart, before)
		if err != nil {
			return Result{}, err
		}
		return n.hosted(notes...)
	}
	if before != nil && n.step("start") == nil {
		seen, note, err := n.takeDown("stop", "stop_cmd", commands.Stop, *before, n.terminate)
		if err != nil {
			return Result{}, err
		}
		if seen.Alive() {
			return Result{}, postCheck("restart", n.name(), n.stillAlive(seen, note), process.CauseStopFailed)
		}
	}
	notes, err := n.bringUp("start", "start_cmd", commands.Start, nil)
	if err != nil {
		return Result{}, err
	}
	return n.hosted(notes...)
}
