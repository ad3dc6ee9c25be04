package operation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"drover/internal/agent/instance"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// preflight fails if the start after the end of a running instance is known to fail, or if the preflight command fails:
// nothing is done then. What is down is not ended, and its start finds out by itself.
func (n *session) preflight(running instance.Sighting) error {
	if n.force {
		return nil
	}
	if err := n.mayEnd(running); err != nil {
		return err
	}
	return n.runsOn(n.preflightCommand())
}

// mayEnd fails if the operation would end an instance for a start that is known to fail. A start ends one, too: that of
// a former spec, as a leftover.
func (n *session) mayEnd(running instance.Sighting) error {
	if n.force || n.living(running) == 0 {
		return nil
	}
	return n.runsOn(n.couldStart(false))
}

// mayMakeRoom fails if a process could not start for which a removal would end this one: they are its copies, or
// its command under another name.
func (n *session) mayMakeRoom(followers []record.Follower) error {
	if n.Preflight == nil || len(followers) == 0 || n.living(n.findAndRecord()) == 0 {
		return nil
	}
	for _, f := range followers {
		if !n.takesPlace(f) {
			continue
		}
		if slices.ContainsFunc(followers, func(other record.Follower) bool { return isAfter(f, other.Process) }) {
			continue // the other one may make what this one needs
		}
		spec := *f.Spec
		spec.RuntimeDirectory = "" // the removal may set it free
		next := &session{Operator: n.Operator, id: f.Process, op: process.Start, spec: &spec}
		err := n.Preflight(f.Process, &spec, next.starters(), false)
		if lacks, ok := errors.AsType[*process.Error](err); ok {
			told := *lacks
			told.Text = fmt.Sprintf("%s, which starts after its end: %s", f.Process, lacks.Text)
			return n.runsOn(&told)
		}
	}
	return nil
}

// takesPlace reports whether a process is another form of the one that is removed: a copy of it, the entry of which it
// was a copy, or its command under another name.
func (n *session) takesPlace(f record.Follower) bool {
	own, _ := process.CutCopy(n.id.Name)
	entry, _ := process.CutCopy(f.Process.Name)
	_, was := n.spec.Starter()
	_, line := f.Spec.Starter()
	return own == entry || was == line
}

// isAfter reports whether a process waits for another one of its namespace, or for all copies of that.
func isAfter(f record.Follower, other process.ID) bool {
	entry, _ := process.CutCopy(other.Name)
	return f.Spec.After[other.Name] != "" || f.Spec.After[entry] != ""
}

// living returns the pid of the instance that the operation would end; 0 if there is none. Where the look by the spec
// finds none, that is the instance on record: the spec may have another account, directory or pid file now.
func (n *session) living(seen instance.Sighting) (pid int) {
	if seen.Alive() {
		return seen.ID.PID
	}
	if recorded := n.subject.Runtime.Process; recorded != nil {
		if alive, _ := n.Processes.Glance(*recorded); alive {
			return recorded.PID
		}
	}
	return 0
}

// couldStart returns why the commands that bring the process up could not run now; nil if nothing is known that
// prevents it. A command that drover could not record would not run either. adopts says that drover is about to take
// the running process over.
func (n *session) couldStart(adopts bool) error {
	if n.Preflight == nil {
		return nil
	}
	if err := n.Preflight(n.id, n.spec, n.starters(), adopts); err != nil {
		return err
	}
	if err := n.Journal.PutProgress(n.item, n.progress); err != nil {
		return instance.Unrecorded(err)
	}
	return nil
}

// starters are the command lines that bring the process up.
func (n *session) starters() (lines []instance.Line) {
	if n.replaces() && (n.op == process.Restart || n.op == process.Preflight) {
		lines = append(lines, instance.Line{Field: n.fieldName("restart_cmd"), Line: n.spec.RestartCommand()})
		if n.op == process.Restart {
			return lines
		}
	}
	if hook := n.spec.BeforeStart; hook != nil {
		lines = append(lines, instance.Line{Field: stepBeforeStart, Line: hook.Run})
	}
	field, line := n.spec.Starter()
	if n.spec.Foreground() {
		line = process.Replacing(line)
	}
	lines = append(lines, instance.Line{Field: n.fieldName(field), Line: line, Later: n.spec.BeforeStart != nil})
	if ready := n.spec.Ready; ready.StopsLate() && ready.Exec != "" { // without it drover ends the process
		lines = append(lines, instance.Line{Field: "ready.exec", Line: ready.Exec, Later: n.spec.BeforeStart != nil})
	}
	return lines
}

// runsOn says of a failed preflight that nothing was done, and what has become of the process meanwhile. It returns the
// end of the operation itself as it is.
func (n *session) runsOn(err error) error {
	known, ok := errors.AsType[*process.Error](err)
	if !ok || known.Cause == process.CauseStopped {
		return err
	}
	fate := "the process does not run"
	if pid := n.living(n.findAndRecord()); pid != 0 {
		fate = fmt.Sprintf("pid %d runs on", pid)
	}
	return refused(known, "nothing was done: "+fate)
}

// refused is the error of a preflight that has failed.
func refused(why *process.Error, fate string) error {
	e := *why
	e.Fault, e.Cause = process.Failed, process.CausePreflight
	e.Text = why.Text + "; " + fate
	if !strings.HasPrefix(why.Text, stepPreflight+" failed: ") { // the command has not told so
		e.Text = stepPreflight + " failed: " + e.Text
	}
	return &e
}

// mayAdopt fails if drover could not start an instance again that it is to take over: its first restart would take it
// down.
func (n *session) mayAdopt(c *instance.UnwatchedCopy) error {
	err := n.couldStart(true)
	if known, ok := errors.AsType[*process.Error](err); ok {
		return refused(known, fmt.Sprintf("nothing was taken over: pid %d runs on as before", c.ID.PID))
	}
	return err
}

// withFate says in the error of a restart what has become of the instance that ran before.
func (n *session) withFate(before *instance.Identity, err error) error {
	known, ok := errors.AsType[*process.Error](err)
	if !ok || before == nil || errors.Is(err, ErrInterrupted) {
		return err
	}
	told := *known
	switch now := n.runtime.Process; {
	case now == nil:
		told.Text = join(known.Text, fmt.Sprintf("pid %d was ended before, and the process is down", before.PID))
	case *now == *before:
		told.Text = join(known.Text, fmt.Sprintf("pid %d runs on", before.PID))
	}
	return &told
}

// preflightCommand runs the preflight command of the spec, if it has one. Only status 0 passes. A stop ends the
// command.
func (n *session) preflightCommand() error {
	if n.spec.Preflight == nil {
		return nil
	}
	all := n.ctx
	n.ctx = n.preparation()
	defer func() { n.ctx = all }()
	st, err := n.command(stepPreflight, n.spec.Preflight.Run)
	if err != nil {
		return err
	}
	n.endLeft([]string{st.Run})
	if !succeeded(st.Result) || !st.Result.Known {
		return n.commandFailed(stepPreflight, st.Result, "")
	}
	return n.interruption()
}

// askPreflight answers whether the process could start now. It changes nothing.
func (n *session) askPreflight() (Result, error) {
	err := n.couldStart(false)
	if err == nil {
		err = n.preflightCommand()
	}
	if err != nil {
		return Result{}, n.runsOn(err)
	}
	return Result{
		Outcome: process.Outcome{Text: successText("it could start now"), Hosted: n.subject.Hosted()},
		Runtime: n.runtime,
	}, nil
}
