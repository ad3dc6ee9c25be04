package operation

import (
	"slices"

	"drover/internal/agent/instance"
	"drover/internal/process"
)

// restart runs restart_cmd, or stops and starts the process if restart_cmd is empty. It leaves the process hosted. The
// process need not run before.
func (n *session) restart() (Result, error) {
	if _, err := n.beside(); err != nil {
		return Result{}, err
	}
	before, err := n.checked(func(seen instance.Sighting) error {
		if _, line := n.spec.Starter(); n.spec.RestartCommand() == "" && line == "" {
			return process.Errorf(process.Failed, "restart_cmd is empty, and start_cmd is empty too: nothing was done")
		}
		if err := n.mayHost(""); err != nil {
			return err
		}
		return n.preflight(seen)
	})
	if err != nil {
		return Result{}, err
	}
	kind := n.spec.Kind()
	field, line := n.spec.Starter()
	var notes []string
	switch {
	case n.replaces():
		notes, err = n.replace(before)
	default:
		if r, err := n.endBefore(before); err != nil || r != nil {
			return deref(r), err
		}
		if kind == process.Resident {
			notes, err = n.bringUp("start", field, line, nil)
		} else {
			notes, err = n.firstRun()
		}
	}
	if err != nil {
		return n.resultOfFailedStart(n.withFate(before, err))
	}
	return n.hosted(notes...)
}

// replaces reports whether restart_cmd replaces the instance, in place of a stop and a start.
func (n *session) replaces() bool {
	_, line := n.spec.Starter()
	return n.spec.RestartCommand() != "" && (n.spec.Kind() != process.Periodic || line == "")
}

func deref(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

// endBefore ends the instance to replace, unless an earlier entry of the operation went further. The result is not nil
// if the end failed.
func (n *session) endBefore(before *instance.Identity) (*Result, error) {
	if before == nil || n.step("start") != nil || n.step(stepRun) != nil {
		return nil, nil
	}
	if err := n.proven(n.stopMethod(), *before); err != nil {
		return nil, err
	}
	down, err := n.takeDown(n.stopMethod(), *before)
	if err != nil {
		return nil, err
	}
	if down.err != nil {
		r := n.failed(down.err)
		return &r, nil
	}
	return nil, nil
}

// replace runs restart_cmd to replace the old instance, and then ends the leftovers of the old instance's run. It does
// the same if restart_cmd failed late and left a new instance. It keeps a run in which the new instance was born.
func (n *session) replace(before *instance.Identity) (notes []string, err error) {
	former := n.subject.Runtime
	if before != nil && n.step("restart") == nil {
		n.recordMembers(*before)
	}
	notes, err = n.bringUp("restart", "restart_cmd", n.spec.RestartCommand(), before)
	now := n.runtime.Process
	if before == nil || now == nil || *now == *before || n.mainOnly() || former.Run != "" &&
		n.runtime.Run == former.Run {
		return notes, err
	}
	run := ""
	if former.Process != nil && *former.Process == *before {
		run = former.Run
	}
	s := instance.Scope{Root: *before, Run: run, FormerMembers: n.progress.Members, Spared: n.othersAnd(now)}
	if problem, _ := n.endScope(s, n.spec.StopCheck()); problem != "" {
		notes = append(notes, "of the run before it "+problem)
	}
	return slices.Clip(notes), err
}
