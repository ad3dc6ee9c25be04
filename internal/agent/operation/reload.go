package operation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// reload runs reload_cmd and checks that the process is alive afterwards, as a start does. It keeps the hosting flag;
// a hosted process continues with the spec of the order. The end of the process is one like any other: its watch tells
// it, and the runtime of the result is still that of the process.
func (n *session) reload() (_ Result, err error) {
	if n.spec.Preflight != nil && !n.force && n.step("reload") == nil && n.findAndRecord().Alive() {
		if err := n.runsOn(n.preflightCommand()); err != nil {
			return Result{}, err
		}
	}
	death := &deathWatch{session: n}
	if seen := n.findAndRecord(); seen.Alive() {
		death.watch(*seen.ID)
	}
	defer func() {
		if death.stop(); err != nil && n.subject.Record != nil && n.runtime.Process == nil {
			n.runtime = n.subject.Runtime
		}
	}()
	watch := n.watchReload()
	n.signalled()
	st, err := n.sendReload()
	if err != nil {
		return Result{}, err
	}
	var seen instance.Sighting
	var why checkFailure
	switch {
	case watch != nil:
		seen, why, err = n.confirmed(watch, st.DoneAt)
	case n.asksReady():
		seen, why, err = n.readyAgain(st)
	default:
		seen, why, err = n.startCheck(st.DoneAt)
	}
	if err != nil {
		return Result{}, err
	}
	if why.failed() {
		if !seen.Alive() {
			n.endedByReload(death, &why)
		}
		return Result{}, postCheckAfter(st.Result, "reload", n.name(), why.text, why.cause)
	}
	r := Result{
		Outcome: process.Outcome{
			Text:   successText(n.unknownStatus("reload_cmd", st.Result), n.tooFewText(seen)),
			Hosted: n.subject.Hosted(),
		},
		Runtime: n.runtime,
	}
	if n.subject.Hosted() {
		rec := n.record()
		rec.Spec = *n.spec
		r.Change = specstore.Change{Put: rec}
	}
	return r, nil
}

// endedByReload explains in the verdict of a check how the process has ended in its reload.
func (n *session) endedByReload(death *deathWatch, why *checkFailure) {
	if death.watching() {
		_, _ = death.wait(n.Clock() + noticeTime) // without a notice the end stays unexplained
	}
	if death.last != nil {
		why.text, why.cause = fmt.Sprintf("not alive: pid %d %s", death.lastID.PID, death.last), n.died.Cause()
	}
}

// afterReload is how long a process must live after a reload that it cannot confirm.
const afterReload = time.Second

// readyAgain checks a process with a readiness test after its reload: the test must pass again. What a process says
// only once, after its start, it need not say again.
func (n *session) readyAgain(st *record.Step) (instance.Sighting, checkFailure, error) {
	if r := n.spec.Ready; r.TCP != "" || r.HTTP != "" || r.Exec != "" {
		return n.upCheck(st, nil)
	}
	death := &deathWatch{session: n}
	defer death.stop()
	seen := n.findAndRecord()
	if !seen.Alive() {
		return seen, death.explain("not alive", seen), nil
	}
	death.watch(*seen.ID)
	return n.aliveUntil(st.DoneAt+afterReload, seen, death)
}

// sendReload runs the reload command, or sends the reload signal of the spec to the main process.
func (n *session) sendReload() (*record.Step, error) {
	if name := n.spec.ReloadSignal(); name != "" {
		seen := n.findAndRecord()
		if !seen.Alive() {
			return nil, n.notRunning(string(process.Reload), n.name())
		}
		if problem := n.signal(*seen.ID, syscall.Signal(process.SignalNumber(name))); problem != "" {
			return nil, process.Errorf(process.Failed, "%s", problem)
		}
		return &record.Step{DoneAt: n.Clock()}, nil
	}
	if n.spec.ReloadCommand() == "" {
		return nil, n.emptyCommand("reload_cmd")
	}
	st, err := n.command("reload", n.spec.ReloadCommand())
	if err != nil {
		return nil, err
	}
	if !succeeded(st.Result) {
		n.findAndRecord()
		return nil, n.commandFailed("reload_cmd", st.Result, "")
	}
	return st, nil
}

// confirmsReload reports whether the process says when it has reloaded.
func confirmsReload(spec *process.Spec) bool { return spec.Ready != nil && spec.Ready.Notify }

// reloadWatch is the wait for RELOADING=1 and then READY=1. expected says that the run has said RELOADING=1 before:
// most programs that say READY=1 after their start say nothing of a reload.
type reloadWatch struct {
	run      string
	before   int
	expected bool
}

// watchReload begins the wait before the process is told to reload; nil if the process does not confirm a reload.
func (n *session) watchReload() *reloadWatch {
	n.findAndRecord()
	if !confirmsReload(n.spec) || n.Notices == nil || n.runtime.Process == nil || !n.runtime.SelfReport.Socket {
		return nil
	}
	said, _ := n.Notices.State(n.runtime.Run)
	return &reloadWatch{n.runtime.Run, said.Reloads, said.Reloading || said.Reloads > 0}
}

// confirmed waits until the process has confirmed the reload, at most for the time of a reload since the given moment.
// A process that has never confirmed one only has to live on, unless it now begins to.
func (n *session) confirmed(w *reloadWatch, since time.Duration) (instance.Sighting, checkFailure, error) {
	limit := commandTime(string(process.Reload), n.spec)
	death := &deathWatch{session: n}
	defer func() { n.word = nil }()
	defer death.stop()
	for {
		said, changed := n.heed(w.run)
		seen := n.findAndRecord()
		until, silent := since+limit, !w.expected && !said.Reloading
		if silent {
			until = since + min(limit, afterReload)
		}
		switch {
		case !seen.Alive():
			return seen, death.explain("not alive", seen), nil
		case said.Reloads > w.before:
			return seen, checkFailure{}, nil
		case silent && n.timeLeft(until) <= 0:
			return seen, checkFailure{}, nil
		case n.timeLeft(until) <= 0:
			text := "no RELOADING=1"
			if said.Reloading {
				text = "no READY=1 after RELOADING=1"
			}
			return seen, checkFailure{
				text: fmt.Sprintf("the reload was not confirmed within %s: %s", shortly(limit), text), cause: process.CauseNotReady,
			}, nil
		}
		death.watch(*seen.ID)
		n.word = changed
		if err := n.pauseUnlessEnded(min(slowLook, n.timeLeft(until)), death); err != nil {
			return seen, checkFailure{}, err
		}
	}
}

// stepSignal records that the signal of the operation may have been sent.
const stepSignal = "signal"

// sendSignal sends a signal to the main process, or to all processes of its run: at most once, so that an agent that
// continues for an earlier one cannot tell whether the signal was sent.
func (n *session) sendSignal() (Result, error) {
	name, tree, _ := n.op.Signal()
	if n.step(stepSignal) != nil {
		return Result{}, process.Errorf(process.Failed,
			"the agent ended while it sent %s: nobody can tell whether the process got the signal", name)
	}
	target, err := n.checked(func(seen instance.Sighting) error {
		if !seen.Alive() {
			return n.notRunning(string(process.Signal), n.name())
		}
		return n.proven(endMethod{verb: string(process.Signal)}, *seen.ID)
	})
	if err != nil {
		return Result{}, err
	}
	targets := []instance.Identity{*target}
	if tree {
		for _, id := range n.Trees.Survivors(n.scopeOf(*target, n.runOf(*target))) {
			if id != *target {
				targets = append(targets, id)
			}
		}
	}
	n.progress.Steps = append(n.progress.Steps, record.Step{Name: stepSignal})
	n.save()
	n.signalled()
	var problems []string
	for _, id := range targets {
		if problem := n.signal(id, syscall.Signal(process.SignalNumber(name))); problem != "" {
			problems = append(problems, problem)
		}
	}
	if len(problems) > 0 {
		return Result{}, process.Errorf(process.Failed, "%s", strings.Join(problems, "; "))
	}
	text := fmt.Sprintf("%s sent to pid %d", name, target.PID)
	if others := len(targets) - 1; others > 0 {
		text += " and " + process.Count(others, "process", "processes") + " of its run"
	}
	return Result{
		Outcome: process.Outcome{Text: successText(text), Hosted: n.subject.Hosted()}, Runtime: n.runtime,
	}, nil
}

// signalled notes that a signal or a reload is about to reach the process.
func (n *session) signalled() {
	who := n.runtime.Process
	if who == nil || !succeeds(n.spec) || n.runtime.Signalled != nil && n.Clock()-n.runtime.Signalled.At < drains {
		return
	}
	if i, _, err := n.Processes.Instance(*who); err == nil {
		n.runtime.Signalled = &record.Signalled{At: n.Clock(), Cmdline: i.Cmdline}
	}
}

// succeeds reports whether another process of the run may succeed the main process of a spec. drover finds a daemon by
// its pid file or name.
func succeeds(spec *process.Spec) bool {
	return spec.Foreground() && spec.Kind() == process.Resident
}

// heir returns the process that a main process has started in its place, as nginx and gunicorn do at USR2; nil if there
// is none. The main process has ended with status 0, or nobody knows how. The heir belongs to its run, has its command
// line and began after it had got a signal or a reload from a person, within succession. The signal is no older than
// drains. All others like it are descendants of the heir.
func (o *Operator) heir(id process.ID, spec *process.Spec, rt record.Runtime) *instance.Identity {
	asked, was := rt.Signalled, rt.Process
	if asked == nil || was == nil || rt.Run == "" || !succeeds(spec) || o.Clock()-asked.At > drains {
		return nil
	}
	if alive, _ := o.Processes.Glance(*was); alive || o.endedBadly(*was) {
		return nil
	}
	var alike []instance.Identity
	for _, who := range o.Trees.Survivors(instance.Scope{Run: rt.Run}) {
		i, _, err := o.Processes.Instance(who)
		began := who.StartedAfterBoot() + tick
		if err == nil && who != *was && i.Cmdline == asked.Cmdline && began >= asked.At && began < asked.At+succession {
			alike = append(alike, who)
		}
	}
	if len(alike) == 0 || len(o.peers.Claimed(id, alike)) > 0 {
		return nil
	}
	first := slices.MinFunc(alike, func(a, b instance.Identity) int {
		return cmp.Or(cmp.Compare(a.StartTicks, b.StartTicks), cmp.Compare(a.PID, b.PID))
	})
	tree := o.Trees.Survivors(instance.Scope{Root: first})
	if slices.ContainsFunc(alike, func(who instance.Identity) bool { return !slices.Contains(tree, who) }) {
		return nil
	}
	return &first
}

const (
	// succession is the time in which a successor begins after a signal, and drains the time in which the former main
	// process ends, which may have connections to serve.
	succession = 10 * time.Minute
	drains     = 24 * time.Hour
)

// tick is how exactly the kernel tells when a process began.
const tick = time.Second / instance.TicksPerSecond

// endedBadly reports whether drover has seen a process end in another way than with status 0.
func (o *Operator) endedBadly(who instance.Identity) bool {
	seen := make(chan liveness.Exit, 1)
	stop, err := o.Processes.Watch(who, func(e liveness.Exit) { seen <- e })
	if err != nil {
		return false
	}
	defer stop()
	select {
	case e := <-seen:
		return e.Known && e.Process().Cause() != process.CauseExited
	default:
		return false
	}
}
