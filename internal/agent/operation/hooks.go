package operation

import (
	"drover/internal/agent/record"
	"drover/internal/process"
)

// The steps of the commands around a start and a stop.
const (
	stepPreflight   = "preflight"
	stepBeforeStart = "before_start"
	stepBeforeStop  = "before_stop"
)

// beforeStart runs the command that must succeed before a start, if the spec has one. A stop ends the command, and it
// fails then.
func (n *session) beforeStart() error {
	if n.spec.BeforeStart == nil {
		return nil
	}
	if st := n.step(stepBeforeStart); st != nil && st.Phase == record.Done && succeeded(st.Result) {
		n.noteLeft(st)
		return nil // an earlier agent may have gone further
	} else if st == nil && n.runtime.Process == nil {
		n.endLeft(n.runtime.LeftoverRuns) // it may hold what the command needs
	}
	all := n.ctx
	n.ctx = n.preparation()
	defer func() { n.ctx = all }()
	st, err := n.command(stepBeforeStart, n.spec.BeforeStart.Run)
	if err != nil {
		return err
	}
	if !succeeded(st.Result) {
		n.endLeft(n.leftBy(true))
		note := "nothing was started"
		if n.progress.Before != nil {
			note = "" // a restart tells what has become of the instance that it has ended
		}
		return n.commandFailed(stepBeforeStart, st.Result, note)
	}
	return n.interruption() // a stop may have come when the command had just ended
}

// beforeStop runs the command that takes the process out of use, if the spec has one, and waits for the time of the
// spec. A command that fails keeps no process from being stopped: note says so.
func (n *session) beforeStop() (note string, err error) {
	h := n.spec.BeforeStop
	if h == nil {
		return "", nil
	}
	st, err := n.command(stepBeforeStop, h.Run)
	if err != nil {
		return "", err
	}
	if !succeeded(st.Result) {
		note = n.commandFailed(stepBeforeStop, st.Result, "the process was stopped all the same").Error()
	}
	if left := st.DoneAt + h.Pause() - n.Clock(); left > 0 {
		err = n.pause(left)
	}
	return note, err
}

// limitOf is the field of the process file with the time limit of a step; empty if there is none, or if the callers
// know the fields of GSE and JOB.
func (n *session) limitOf(step string) string {
	switch {
	case step == stepBeforeStart, step == stepPreflight:
		return step + ".timeout"
	case step == stepBeforeStop || !n.own():
		return ""
	case step == string(process.Stop), step == string(process.Reload):
		return "timeouts." + step
	}
	return "timeouts.start"
}

// fieldOf is the field, as callers know it, that has the command of a step.
func (n *session) fieldOf(step string) string {
	switch step {
	case string(process.Start), stepRun:
		field, _ := n.spec.Starter()
		return n.fieldName(field)
	case stepBeforeStart, stepBeforeStop, stepPreflight:
		return step
	}
	return n.fieldName(step + "_cmd")
}
