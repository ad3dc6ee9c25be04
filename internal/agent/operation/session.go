package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/record"
	"drover/internal/process"
)

// session is one operation under way.
type session struct {
	*Operator
	ctx    context.Context //nolint:containedctx // a session lives exactly as long as the call that made it
	id     process.ID
	op     process.Op
	item   string
	spec   *process.Spec
	groups []process.Group
	// force says that the operation goes past the preflight.
	force bool
	// wire says that the order came over the API of GSE or JOB.
	wire    bool
	subject Subject
	runtime record.Runtime
	// wish is what a start does beside an unwatched copy. copyPID is the pid of the copy to take over; 0
	// if the order does not name it. copyBegan is when that copy began, in clock ticks since boot.
	wish      process.Beside
	copyPID   int
	copyBegan uint64
	progress  record.Progress
	// gateText are the words of the gate of the last command that did not run.
	gateText string
	// ended are the processes that were ended besides the main one.
	ended []liveness.Member
	// answerer says that another program has passed the readiness test; empty if none has.
	answerer string
	// over says that the started process has succeeded and needs no relaunch.
	over bool
	// died is the last end that a check of this operation has seen; nil if there was none.
	died *process.Exit
	// hurry is closed when the check under way must end early; nil if nothing can end it early.
	hurry <-chan struct{}
	// word is closed when the process says something that the check under way waits for; nil if it waits for no word.
	word <-chan struct{}
	// reported is the instance that was passed to Subject.Checking last.
	reported instance.Identity
}

// name is the process name that callers know.
func (n *session) name() string { return cmp.Or(n.spec.ProcessName, n.id.Name) }

// save stores the progress. It only logs a failure, because the work is already done.
func (n *session) save() {
	if err := n.Journal.PutProgress(n.item, n.progress); err != nil {
		n.Log.Warn("cannot store progress of operation", "item", n.item, "error", err)
	}
}

// checked runs the pre-check once over all entries of the operation, and records which instance ran before. It fails
// if drover cannot find out whether the process runs.
func (n *session) checked(precheck func(before instance.Sighting) error) (*instance.Identity, error) {
	if p := n.progress; p.Checked {
		if n.runtime.Process == nil && p.Before != nil {
			n.runtime.Process, n.runtime.Run, n.runtime.PIDFile = p.Before, p.Run, p.PIDFile
		}
		return p.Before, nil
	}
	before := n.findAndRecord()
	if before.Unsure() {
		return nil, unsure(before)
	}
	if !before.Alive() && before.Doubt != "" {
		return nil, process.Errorf(process.Failed, "nothing was done: %s", before.Doubt).Because(before.Cause)
	}
	if before.Alive() {
		if err := n.rivalry(instance.ClaimOfInstance(*before.ID)); err != nil {
			return nil, err
		}
	}
	if err := precheck(before); err != nil {
		return nil, err
	}
	n.progress.Checked, n.progress.Before = true, before.ID
	if before.Alive() {
		n.progress.Run, n.progress.PIDFile = n.runtime.Run, n.runtime.PIDFile
	}
	n.save()
	return before.ID, nil
}

// findAndRecord finds the instance that runs now, and records that instance in the runtime.
func (n *session) findAndRecord() instance.Sighting {
	s := n.find()
	n.recordSighting(s)
	return s
}

// find is findAndRecord without the record.
func (n *session) find() instance.Sighting {
	rt := n.runtime
	if n.op.Name() != process.Reload && n.op.Name() != process.Signal {
		rt.Signalled = nil // what ends or starts a process is about the one that it has found
	}
	return n.lookSince(n.id, n.spec, rt, n.startedAt())
}

// startedAt is when the operation began to start the process, in clock ticks since boot; 0 if it has not.
func (n *session) startedAt() uint64 {
	for i := range n.progress.Steps {
		if st := &n.progress.Steps[i]; n.starts(st) && st.Phase != "" {
			return st.Child.StartTicks
		}
	}
	return 0
}

// recordSighting records a sighting in the runtime.
func (n *session) recordSighting(s instance.Sighting) {
	n.runtime = WithSighting(n.runtime, s)
}

// WithSighting returns the runtime after a look. A new instance that was born in no run of drover came from outside.
func WithSighting(rt record.Runtime, s instance.Sighting) record.Runtime {
	if s.ID == nil {
		if rt.Process != nil {
			rt.Process, rt.Ended = nil, rt.Process
			rt.Unready, rt.SelfReport, rt.Limits, rt.LimitsSince = nil, record.SelfReport{}, nil, 0
		}
		return rt
	}
	if rt.Process == nil || *rt.Process != *s.ID {
		rt.Outside = s.Run == "" && (rt.Process != nil || rt.LastStartAt != 0)
		if rt.Run != s.Run {
			rt.Run, rt.User, rt.SetupPath, rt.Command = s.Run, "", "", ""
			rt.Revision, rt.StartDigest = 0, ""
		}
		rt.Health, rt.Version, rt.Adopted, rt.Signalled = nil, nil, false, nil
		rt.Unready, rt.SelfReport, rt.Limits, rt.LimitsSince = nil, record.SelfReport{}, nil, 0
	}
	rt.Ended = nil
	rt.Process, rt.PIDFile, rt.Matches = s.ID, s.PIDFile, s.Matches
	return rt
}

// Look finds the live instance of a process. It leaves out an instance that another process of this agent owns through
// another pid file. For a spec of a process file, it leaves out what has only the name: drover has not started it.
func (o *Operator) Look(id process.ID, spec *process.Spec, rt record.Runtime) instance.Sighting {
	return o.lookSince(id, spec, rt, 0)
}

// Unrecorded finds the latest run of a foreground process that is not on record, as after the disk was restored from an
// older copy. It began later than the last start on record. It returns nil if there is none, if no control groups tell,
// or if the policy of the host forbids the look.
func (o *Operator) Unrecorded(id process.ID, spec *process.Spec, rt record.Runtime) (latest *instance.UnwatchedCopy) {
	if !spec.Foreground() || spec.Kind() == process.Periodic ||
		o.Policy != nil && o.Policy.MayLook(id, spec) != nil {
		return nil
	}
	after := time.Unix(rt.LastStartAt+1, 0)
	for _, run := range o.Trees.RunsOf(runPrefix(id)) {
		if run == rt.Run || !strings.HasSuffix(run, processSuffix) {
			continue
		}
		var oldest *instance.Identity // is the process: all others are its children
		for _, who := range o.Trees.Survivors(instance.Scope{Run: run}) {
			if oldest == nil || who.StartTicks < oldest.StartTicks {
				oldest = &who
			}
		}
		if oldest == nil {
			continue
		}
		since := time.Now().Add(oldest.StartedAfterBoot() - o.Clock())
		if _, _, known := o.peers.Owner(id, *oldest); !known && !since.Before(after) {
			latest, after = &instance.UnwatchedCopy{ID: *oldest, Run: run, Since: since}, since
		}
	}
	return latest
}

// lookSince is Look that also finds by its name what began at since or later, in clock ticks since boot, unless since
// is 0: a start command may have another program start the process.
func (o *Operator) lookSince(id process.ID, spec *process.Spec, rt record.Runtime, since uint64) instance.Sighting {
	if rt.Process == nil && o.Policy != nil {
		if err := o.Policy.MayLook(id, spec); err != nil {
			return instance.Sighting{Note: err.Error(), Cause: process.CauseOf(err)}
		}
	}
	own := func(run string) bool { return strings.HasPrefix(run, runPrefix(id)) }
	other := func(instance instance.Identity) bool {
		_, _, ok := o.peers.Owner(id, instance)
		return ok || spec.Compat == nil && (since == 0 || instance.StartTicks < since) && !own(o.Trees.RunOf(instance))
	}
	s := o.Processes.Look(spec, rt, instance.Ownership{Other: other, Own: own})
	if s.ID == nil {
		if heir := o.heir(id, spec, rt); heir != nil {
			s = instance.Sighting{ID: heir, Matches: 1}
		}
	}
	if s.ID == nil || rt.Process != nil && *s.ID == *rt.Process {
		return s
	}
	if owner, file, ok := o.peers.Owner(id, *s.ID); ok && file != s.PIDFile {
		return instance.Sighting{Note: fmt.Sprintf("pid %d belongs to %s", s.ID.PID, owner), Cause: process.CauseOwnedByOther}
	}
	if run := o.Trees.RunOf(*s.ID); own(run) {
		s.Run = run
	}
	return s
}

// step returns the journalled step of that name, or nil.
func (n *session) step(name string) *record.Step {
	for i := range n.progress.Steps {
		if n.progress.Steps[i].Name == name {
			return &n.progress.Steps[i]
		}
	}
	return nil
}

// command runs one command line as the step of that name, at most once over all entries of the operation. It waits
// until the command ends or its time limit expires. It fails only if the command could not start at all.
func (n *session) command(name, line string) (*record.Step, error) {
	st, err := n.commandUnless(name, line, func() bool { return false })
	if err == nil {
		n.noteLeft(st)
	}
	return st, err
}

// errNeedless says that drover did not release a command, because the command became needless.
var errNeedless = errors.New("the command is not needed")

// commandUnless is command for a step that may become needless. It calls needless once, while the command is on its
// way to its gate, so the question costs no extra time. It also calls needless if the command cannot start. The answer
// counts only for a command that no earlier entry released.
func (n *session) commandUnless(name, line string, needless func() bool) (*record.Step, error) {
	st := n.step(name)
	switch {
	case st != nil && st.Phase == record.Done:
		n.become(st)
		return st, nil
	case st != nil && st.Phase == record.Released:
		if err := n.finish(st); !errors.Is(err, errUnrun) {
			return st, err
		}
	case st == nil:
		n.progress.Steps = append(n.progress.Steps, record.Step{Name: name})
		st = n.step(name)
	}
	// A step of an earlier agent that ended at its gate, unrun, begins again.
	if err := n.release(st, line, needless); err != nil {
		return nil, err
	}
	err := n.finish(st)
	if errors.Is(err, errUnrun) {
		err = notRun(n.gateText)
	}
	return st, err
}

// release forks a command, records it, and then lets it run. So the reader of the record can tell from the proof of
// the run whether the command has passed its gate. A command that drover cannot record does not run.
func (n *session) release(st *record.Step, line string, needless func() bool) error {
	n.launches.enter()
	leave := n.launches.leave
	defer func() { leave() }()
	st.Run = n.NewRun(n.id)
	if n.isProcess(st) {
		st.Run += processSuffix
		line = process.Replacing(line)
	}
	n.active.add(n.item, st.Run)
	child, err := n.Commands.Launch(n.id, st.Run, line, n.specFor(st))
	unneeded := needless()
	if err != nil {
		err = n.explained(st.Run, err)
		if unneeded {
			return errNeedless
		}
		if known, ok := errors.AsType[*process.Error](err); ok && known.Cause == "" {
			return known.Because(process.CauseCommandFailed)
		}
		return err
	}
	if unneeded || n.ctx.Err() != nil {
		child.Abandon()
		n.Commands.Discard(st.Run)
		if unneeded {
			return errNeedless
		}
		return n.interruption()
	}
	st.Child, st.Phase = child.Identity(), record.Released
	st.Until = n.Clock() + commandTime(st.Name, n.spec)
	if err := n.Journal.PutProgress(n.item, n.progress); err != nil {
		child.Abandon()
		n.Commands.Discard(st.Run)
		st.Phase = ""
		return instance.Unrecorded(err)
	}
	if n.Notices != nil && n.starts(st) && n.spec.Notifies() {
		n.Notices.Expect(st.Run, st.Child)
	}
	if err := child.Release(); err != nil {
		return n.explained(st.Run, fmt.Errorf("cannot let %s run: %w", st.Name, err))
	}
	if n.item == relaunchKey(n.id) {
		leave = n.launches.leaveSoon
	}
	return nil
}

// specFor returns the spec for a step. A stop, kill or reload uses the account that started the run. Only a command
// that starts the process can say something for it.
func (n *session) specFor(st *record.Step) *process.Spec {
	if !n.starts(st) && (n.spec.Notifies() || n.spec.Ready.Descriptor() != 0) {
		silent := *n.spec
		silent.Ready, silent.Health = nil, nil // a question about health is no step
		return n.ofRun(st, &silent)
	}
	return n.ofRun(st, n.spec)
}

// starts reports whether the command of a step starts the process.
func (n *session) starts(st *record.Step) bool {
	return st.Name == string(process.Start) || st.Name == stepRun || st.Name == string(process.Restart)
}

// ofRun returns the spec with the account that a step uses.
func (n *session) ofRun(st *record.Step, of *process.Spec) *process.Spec {
	user := n.runtime.User
	if user == "" || user == of.User || st.Name != string(process.Stop) &&
		st.Name != string(process.Kill) && st.Name != string(process.Reload) {
		return of
	}
	spec := *of
	spec.User = user
	return &spec
}

func (n *session) interruption() error { return Interruption(n.ctx) }

// Interruption is why something ends early: ErrInterrupted if the agent stops, or an error in a caller's words if a
// kill or a stop has overtaken it. It is nil while ctx lasts.
func Interruption(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if by, ok := errors.AsType[endCause](context.Cause(ctx)); ok {
		return process.Errorf(process.Failed, "%s", by.Error()).Because(process.CauseStopped)
	}
	return ErrInterrupted
}

// errUnrun says that a command ended at its gate.
var errUnrun = errors.New("the command did not pass its gate")

// notRun is the error for people, with what the gate has said: nothing if somebody has ended it.
func notRun(said string) error {
	if said == "" {
		return process.Errorf(process.Failed, "the command was ended before it ran anything")
	}
	return process.Errorf(process.Failed, "the command did not run: %s", said).Because(process.CauseCommandFailed)
}

// explained drops what the host keeps of a run that has not begun. It returns what the gate has said, or err if the
// gate has said nothing.
func (n *session) explained(run string, err error) error {
	if said := n.gateSaid(run); said != "" {
		return notRun(said)
	}
	return err
}

// gateSaid returns the words of the gate of a run, and drops what the host keeps of the run.
func (n *session) gateSaid(run string) string {
	said := n.Commands.Output(run)
	n.Commands.Discard(run)
	return strings.TrimPrefix(strings.TrimSpace(said), "drover: ")
}

// await waits for the end of a released command.
func (n *session) await(st *record.Step) error {
	exits := make(chan liveness.Exit, 1)
	stop, err := n.Processes.Watch(st.Child, func(e liveness.Exit) { exits <- e })
	if err != nil {
		if !errors.Is(err, liveness.ErrGone) {
			return fmt.Errorf("cannot watch %s: %w", st.Name, err)
		}
		// The command ended while no agent was running.
		if !n.Commands.Ran(st.Run) {
			return n.unrun(st)
		}
		n.done(st, record.CommandResult{Text: "ended while the agent was away, exit status unknown"})
		return nil
	}
	defer stop()
	limit := time.NewTimer(st.Until - n.Clock())
	defer limit.Stop()
	for {
		select {
		case e := <-exits:
			return n.exited(st, e)
		case <-limit.C:
			select {
			case e := <-exits: // the command of an earlier agent, which this agent began to watch late
				return n.exited(st, e)
			default:
				return n.expire(st)
			}
		case <-n.ctx.Done():
			return n.cutShort(st)
		}
	}
}

// isProcess reports whether the command of a step is the process.
func (n *session) isProcess(st *record.Step) bool {
	return n.spec.Foreground() && (st.Name == "start" || st.Name == stepRun)
}

// finish waits for the end of a released command; for a command that is the process it only waits for its start.
func (n *session) finish(st *record.Step) error {
	if !n.isProcess(st) {
		return n.await(st)
	}
	if n.item == relaunchKey(n.id) { // nobody waits for the answer, as somebody does for that of an operation
		n.launches.wait(n.ctx)
	}
	if err := n.checkBegun(st); err != nil {
		return err
	}
	n.Commands.Output(st.Run) // it releases what the run holds open
	st.Phase, st.Result, st.DoneAt = record.Done, &record.CommandResult{Known: true}, n.Clock()
	n.save()
	n.become(st)
	return nil
}

// become records the command of a step as the instance, if the command is the process.
func (n *session) become(st *record.Step) {
	if !n.isProcess(st) {
		return
	}
	child := st.Child
	n.recordSighting(instance.Sighting{ID: &child, Matches: 1, Run: st.Run})
	n.runtime.Run, n.runtime.Outside = st.Run, false
	n.runtime.SelfReport.Socket = n.spec.Notifies()
}

// unrun records that the command of a step did not run, and then drops what the host keeps of the run. The order
// matters: if an agent finds a released command without a proof, it must assume that the command ran. It returns
// errUnrun, and n.said is then what the gate has said.
func (n *session) unrun(st *record.Step) error {
	run := st.Run
	st.Phase, st.Run, n.gateText = "", "", ""
	if err := n.Journal.PutProgress(n.item, n.progress); err != nil {
		n.Log.Warn("cannot store progress of operation", "item", n.item, "error", err)
		return errUnrun // a sweep drops the run after the operation has ended
	}
	n.gateText = n.gateSaid(run)
	return errUnrun
}

// cutShort leaves a command alone if the agent stops, or ends the command if a kill has overtaken the operation.
func (n *session) cutShort(st *record.Step) error {
	err := n.interruption()
	if errors.Is(err, ErrInterrupted) {
		return err
	}
	text := err.Error() + " with all processes that it had started"
	if problem, _ := n.endCommand(st.Child, st.Run); problem != "" {
		text = err.Error() + "; " + problem
	}
	n.done(st, record.CommandResult{Known: true, Code: 128 + int(syscall.SIGKILL), Text: text})
	return process.Errorf(process.Failed, "%s %s", n.fieldOf(st.Name), text).Because(process.CauseStopped)
}

// exited records the end of a command.
func (n *session) exited(st *record.Step, e liveness.Exit) error {
	n.launches.wait(n.ctx)
	if !n.Commands.Ran(st.Run) {
		return n.unrun(st)
	}
	n.done(st, record.CommandResult{Known: e.Known, Code: exitCode(e), Text: e.String()})
	return nil
}

// expire ends a command whose time is up, with every process that it left behind.
func (n *session) expire(st *record.Step) error {
	limit := shortly(commandTime(st.Name, n.spec))
	if field := n.limitOf(st.Name); field != "" {
		limit += ", as " + field + " says"
	}
	text := fmt.Sprintf("timed out after %s; drover ended it with all processes that it had started", limit)
	switch problem, proven := n.endCommand(st.Child, st.Run); {
	case problem != "":
		text = fmt.Sprintf("timed out after %s; %s", limit, problem)
	case !proven:
		text += " and that drover found"
	}
	n.done(st, record.CommandResult{TimedOut: true, Text: text})
	return nil
}

func (n *session) done(st *record.Step, r record.CommandResult) {
	r.Output = n.Commands.Output(st.Run)
	st.Phase, st.Result, st.DoneAt = record.Done, &r, n.Clock()
	n.save()
}

func exitCode(e liveness.Exit) int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}
