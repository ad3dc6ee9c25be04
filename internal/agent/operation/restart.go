package operation

import (
	"slices"

	"drover/internal/agent/instance"
	"drover/internal/agent/procfs"
	"drover/internal/process"
)

// restart runs restart_cmd, or stops and starts the process where there is none, and leaves it hosted. Nothing needs to
// run before.
func (n *session) restart() (Result, error) {
	commands := n.spec.Commands
	before, err := n.checked(func(instance.Sighting) error {
		if commands.Restart == "" && commands.Start == "" {
			return process.Errorf(process.Failed, "restart_cmd is empty, and start_cmd is empty too: nothing was done")
		}
		return n.mayHost("")
	})
	if err != nil {
		return Result{}, err
	}
	kind := n.spec.Policy.Kind
	var notes []string
	switch {
	case commands.Restart != "" && (kind != process.Periodic || commands.Start == ""):
		notes, err = n.replace(before)
	default:
		if r, err := n.endBefore(before); err != nil || r != nil {
			return deref(r), err
		}
		if kind == process.Resident {
			notes, err = n.bringUp("start", "start_cmd", commands.Start, nil)
		} else {
			notes, err = n.firstRun()
		}
	}
	if err != nil {
		return Result{}, err
	}
	return n.hosted(notes...)
}

func deref(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

// endBefore ends the instance that is to be replaced, unless an earlier entry of the operation has come further. The
// result is not nil where that has failed.
func (n *session) endBefore(before *procfs.Identity) (*Result, error) {
	if before == nil || n.step("start") != nil || n.step(stepRun) != nil {
		return nil, nil
	}
	if err := n.proven(n.asked(), *before); err != nil {
		return nil, err
	}
	down, err := n.takeDown(n.asked(), *before)
	if err != nil {
		return nil, err
	}
	if down.err != nil {
		r := n.failed(down.err)
		return &r, nil
	}
	return nil, nil
}

// replace lets restart_cmd put a new instance in the place of the old one, and ends what is left of the old one's run
// afterwards. A run in which the new instance was born goes on. Where restart_cmd has failed late and left a new
// instance, the same holds.
func (n *session) replace(before *procfs.Identity) (notes []string, err error) {
	former := n.subject.Runtime
	if before != nil && n.step("restart") == nil {
		n.note(*before)
	}
	notes, err = n.bringUp("restart", "restart_cmd", n.spec.Commands.Restart, before)
	now := n.runtime.Process
	if before == nil || now == nil || *now == *before || n.mainOnly() || former.Run != "" &&
		n.runtime.Run == former.Run {
		return notes, err
	}
	run := ""
	if former.Process != nil && *former.Process == *before {
		run = former.Run
	}
	s := instance.Scope{Root: *before, Run: run, Noted: n.progress.Noted, Spared: n.othersAnd(now)}
	if problem, _ := n.endScope(s, seconds(n.spec.Policy.StopCheck)); problem != "" {
		notes = append(notes, "of the run before it "+problem)
	}
	return slices.Clip(notes), err
}
