// Package operation executes one operation on one process: pre-check, command, wait, post-check, outcome. Each
// operation has its own file. If the agent dies in the middle of an operation, the next agent can resume it: every
// step is journalled, and a step that may have run never runs again. The package does not decide what happens between
// operations (lifecycle does) nor in which order operations run (supervisor does).
package operation

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"drover/internal/agent/instance"
	"drover/internal/agent/liveness"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/agent/trail"
	"drover/internal/process"
	"drover/internal/spec"
)

// Processes is the host as far as running processes go.
type Processes interface {
	// Look finds the live instance of the process. An identity recorded in rt decides alone.
	Look(spec *process.Spec, rt record.Runtime, whose instance.Ownership) instance.Sighting
	// Watch calls fn once when the process ends. It fails with liveness.ErrGone if it has ended.
	Watch(id instance.Identity, fn func(liveness.Exit)) (stop func(), err error)
	// Signal sends a signal to exactly that process, or fails with liveness.ErrGone.
	Signal(id instance.Identity, sig syscall.Signal) error
	// Instance describes the process as /proc shows it. moved reports whether the description differs from the last
	// one.
	Instance(id instance.Identity) (i process.Instance, moved bool, err error)
	// Glance reports, at next to no cost, whether it is alive and whether its Instance has moved.
	Glance(id instance.Identity) (alive, moved bool)
	// Executes reports whether a released command has yet to execute its program, or is about to say that it cannot.
	Executes(id instance.Identity) bool
	// Listeners returns the sockets that listen at a TCP port of the host, by inode; none if that is unknown.
	Listeners(port uint16) []uint64
	// OtherHolder names a process that has one of the sockets open; empty if a process of the scope has, or if that is
	// unknown.
	OtherHolder(sockets []uint64, s instance.Scope) string
}

// Commands is the host as far as commands go. A run is one command and all that it starts.
type Commands interface {
	// Launch forks a command line of the process; it waits at its gate until it is released.
	Launch(id process.ID, run, line string, spec *process.Spec) (instance.Child, error)
	// Ran reports whether the command of a run has passed its gate. Call it if the record does not tell whether the
	// command was released.
	Ran(run string) bool
	// Output returns the shortened output of a run. Discard then drops everything that the host keeps of a run that
	// has ended.
	Output(run string) string
	Discard(run string)
	// Visit opens a file for a spec: with the rights of its account, as far as the policy of the host lets.
	Visit(spec *process.Spec, path string, do func(*trail.Trail) error) error
	// LastWords returns the end of the log that the spec names; empty if nobody wrote to the log after since, or if
	// the account of the process may not read it.
	LastWords(spec *process.Spec, since time.Time) string
}

// Host is the host as far as operations go.
type Host interface {
	Processes
	Commands
	Trees
	Claims
	Notices
}

// Journal keeps the progress of an operation.
type Journal interface {
	GetProgress(item string) (record.Progress, error)
	PutProgress(item string, p record.Progress) error
}

// Peers knows the other processes of the agent.
type Peers interface {
	// Owner returns another process than self that runs as this instance, and the pid file it is known by.
	Owner(self process.ID, instance instance.Identity) (owner process.ID, pidFile string, ok bool)
	// Knows reports whether the agent knows the process whose runs have this prefix.
	Knows(prefix string) bool
	// Claimed returns those of the processes that another process than self knows as its own.
	Claimed(self process.ID, among []instance.Identity) []instance.Identity
	// Hosting returns another hosted process than self with the same pid file: the file that led to the instance, or
	// the file that the spec names.
	Hosting(self process.ID, spec *process.Spec, pidFile string) (process.ID, bool)
	// Hold suspends the watch of another process until release is called with the effect on that process.
	Hold(ctx context.Context, id process.ID) (release func(PeerEffect), err error)
}

// PeerEffect is the effect of an operation on another key of the same process.
type PeerEffect string

// The effects: the process is unchanged; it was stopped and becomes unhosted; it was asked to end and may still do so.
const (
	Untouched PeerEffect = ""
	Down      PeerEffect = "down"
	AskedToo  PeerEffect = "asked"
)

// Policy is the owner's limit on what drover may do on the host.
type Policy interface {
	// Allow returns nil if an operation may be carried out with the spec, else why not, in a caller's words.
	Allow(id process.ID, op process.Op, spec *process.Spec) error
	// MayAsk returns nil if the commands of the spec may be run that only ask.
	MayAsk(id process.ID, spec *process.Spec) error
	// MayLook returns nil if the process may be looked for as the spec says.
	MayLook(id process.ID, spec *process.Spec) error
}

// Claims keep several drovers of one host from managing the same process. A claim is any text. It is held until it is
// dropped, or this program ends.
type Claims interface {
	// Take holds a claim, and returns 0, or the pid of the other drover that holds it.
	Take(claim string) (rival int)
	// Rival returns the pid of another drover that holds the claim; 0 if none does.
	Rival(claim string) int
	Drop(claim string)
	// ForeignSupervisor returns the other supervisor of a process that drover did not start; nil if there is none.
	// Supervises reports whether that supervisor still acts: for a program, whether the program lives. SupervisedPID
	// returns the pid of the process that it supervises now, or minus its own pid if that may be any of its children;
	// 0 if nobody knows. Supervises and SupervisedPID may take some seconds if systemd is slow.
	ForeignSupervisor(id instance.Identity) *instance.ForeignSupervisor
	Supervises(k instance.ForeignSupervisor) bool
	SupervisedPID(k instance.ForeignSupervisor) int
}

// Config is what an Operator needs.
type Config struct {
	Processes Processes
	Commands  Commands
	Trees     Trees
	Journal   Journal
	Prober    Prober
	// Notices may be nil: no process can notify drover.
	Notices Notices
	// Policy may be nil: everything is allowed. Claims may be nil: there is no other drover.
	Policy Policy
	Claims Claims
	// Clock is the time since boot.
	Clock func() time.Duration
	// NewRun makes a run id with NewRunID, never the same twice.
	NewRun func(process.ID) string
	// Preflight says, in a caller's words, why command lines of a spec could not start now, as far as that can be known
	// without an effect; nil if nothing prevents it. adopts says that drover is about to take the running process over.
	// It may be nil.
	Preflight func(id process.ID, spec *process.Spec, lines []instance.Line, adopts bool) error
	// LimitNotes says in a caller's words which limits of a spec the host does not keep; it may be nil.
	LimitNotes func(*process.Spec) []string
	// OOM returns how many processes of a run the kernel has killed because memory ran out. It never falls while the
	// run lives. It is 0 if the host does not count them, and after the group of the run is gone.
	OOM func(run string) int
	// Marks are those of the group of a run. Nil says that nobody knows.
	Marks func(run string) instance.Marks
	// AdoptPlaces takes over what the former supervisor of a process has made for it on this host.
	AdoptPlaces func(id process.ID, spec *process.Spec)
	// Relimit changes the limits of a scope that runs by one spec to those of another. It returns by name those that it
	// cannot change, and why; it may be nil.
	Relimit func(s instance.Scope, was, is *process.Spec) map[string]string
	// LogRemoved returns since when a process writes to log files that somebody has removed, in Unix milliseconds; 0 if
	// they are there. It may be nil.
	LogRemoved func(process.ID) int64
	// LogFull returns since when the file system of the log files has had no room, in Unix milliseconds; 0 if it has
	// room. It may be nil.
	LogFull func() int64
	Log     *slog.Logger
}

// Operator carries out operations. It is safe for concurrent use.
type Operator struct {
	Config
	peers    Peers
	launches launchPriority
	active   activeRuns
	reserved reservations
}

// New returns an operator that works beside these other processes.
func New(cfg Config, peers Peers) *Operator { return &Operator{Config: cfg, peers: peers} }

// Subject is what the agent knows about the process when an operation begins. Record is nil for an unknown process.
type Subject struct {
	Record  *record.Record
	Runtime record.Runtime
	// Overtook says that a kill or a stop has ended an operation under way: if it finds nothing alive, it has then
	// still done its work.
	Overtook bool
	// Hurry is closed when a waiting task takes precedence over the check. The check then decides by its last look. It
	// may be nil.
	Hurry <-chan struct{}
	// Checking is called when the check of a start begins: from then on the operation only looks. It is called again
	// for each new instance that the check finds. It gets what is known of the instance, and may be nil.
	Checking func(record.Runtime)
	// Instance is the instance on record, if it has been looked at for this operation; else nil.
	Instance *process.Instance
}

// Hosted reports the hosting flag.
func (s Subject) Hosted() bool { return s.Record != nil && s.Record.Hosted }

// Result is the result of an operation.
type Result struct {
	Outcome process.Outcome
	Change  specstore.Change
	// Runtime describes the instance afterwards; its Process is nil when nothing runs.
	Runtime record.Runtime
	// Restore says that the relaunch budget is full again. Now says that a hosted process that is down starts at once.
	Restore bool
	Now     bool
	// Ended are the other processes that the operation ended besides the main one.
	Ended []liveness.Member
	// Wrote is the part of the outcome's text that a command wrote.
	Wrote string
	// StopPending says that the process was asked to end and is still there: its end may be yet to come.
	StopPending bool
}

// ErrInterrupted says that the agent stops in the middle of an operation. The outcome is open, and the operation
// continues when it is entered again.
var ErrInterrupted = errors.New("interrupted by the stop of the agent")

// endCause is the cause with which another operation cancels the context of an operation and of its command.
type endCause struct{ by string }

// Error implements error.
func (c endCause) Error() string { return "ended by " + c.by }

// EndedBy returns the cause for which a context ends when a kill or a stop overtakes an operation.
func EndedBy(e *record.Entry) error {
	by := "a " + string(e.Op)
	if who := cmp.Or(e.Actor.User, e.Actor.App); who != "" {
		by += " of " + who
	}
	return endCause{by}
}

// preparationKey is the context key of the preparation of a start.
type preparationKey struct{}

// Stoppable returns a context for an operation or a relaunch, and a function that ends only its preparation: with
// EndedBy, the before_start command ends, and the start that would follow does not begin.
func Stoppable(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	preparation, end := context.WithCancelCause(ctx)
	return context.WithValue(ctx, preparationKey{}, preparation), end
}

// preparation is the context of what comes before the command of a start.
func (n *session) preparation() context.Context {
	if ctx, ok := n.ctx.Value(preparationKey{}).(context.Context); ok {
		return ctx
	}
	return n.ctx
}

// Operate carries out one accepted operation, or continues one that an earlier agent began. It blocks until the
// outcome is known, or returns ErrInterrupted when ctx ends first. It then leaves running commands alone. If ctx ends
// with EndedBy, it ends the command under way with its tree, and the outcome says so.
func (o *Operator) Operate(ctx context.Context, e record.Entry, s Subject) (Result, error) {
	var progress record.Progress
	if e.Op != process.Query {
		var err error
		if progress, err = o.Journal.GetProgress(e.Item); err != nil {
			o.Log.Warn("cannot read progress of operation", "item", e.Item, "error", err)
		}
	}
	n := o.session(ctx, e, s)
	n.progress = progress
	row := e.Op.Info()
	if n.spec == nil {
		if row.Spec >= process.SpecNeeded {
			return n.unregistered(), nil
		}
		n.spec = noSpec()
	}
	// An operation that has begun continues, so that its outcome can say what it did.
	if err := o.Allow(e.Process, e.Op, n.spec); err != nil && len(progress.Steps) == 0 {
		return n.failed(err), nil
	}
	if row.Acts && len(progress.Steps) == 0 {
		if err := o.rivalry(instance.ClaimOfPlace(n.id, n.spec)); err != nil {
			return n.failed(err), nil
		}
		if err := n.mayAct(row.Waits, row.StoresSpec); err != nil {
			return n.failed(err), nil
		}
		if err := n.mayMakeRoom(e.Followers); err != nil {
			return n.failed(err), nil
		}
	}
	result, err := n.run() //nolint:contextcheck // the session carries it
	if errors.Is(err, ErrInterrupted) {
		return Result{}, ErrInterrupted
	}
	if err != nil {
		result = n.failed(err)
	}
	result.Ended = n.ended
	return result, nil
}

// session returns an operation that has not begun.
func (o *Operator) session(ctx context.Context, e record.Entry, s Subject) *session {
	n := &session{
		Operator: o, ctx: ctx, id: e.Process, op: e.Op, item: e.Item, spec: SpecInForce(e, s),
		force:  e.Op.Forced(),
		groups: e.Groups, wire: !e.Ordered, subject: s, runtime: s.Runtime,
		wish: e.Beside,
	}
	if n.force {
		n.op = e.Op.Name()
	}
	if n.spec != nil && n.spec.Beside != "" { // it is for this order alone
		spec := *n.spec
		n.wish, n.copyPID, n.copyBegan = spec.Beside.Split()
		spec.Beside = ""
		n.spec = &spec
	}
	return n
}

// NotBegun returns the result of an operation that did not begin, because of err: it has waited for other processes
// without success. A start of a process of a process file is a wish all the same: the process is hosted, and starts
// when it may. A process that does not stay up is only registered.
func (o *Operator) NotBegun(ctx context.Context, e record.Entry, s Subject, err error) Result {
	n := o.session(ctx, e, s)
	resident := n.spec.Kind() == process.Resident
	if e.Op != process.Start || !resident && s.Record != nil {
		return n.failed(err)
	}
	if refusal := n.refusal(err); refusal != nil { //nolint:contextcheck // the session carries it
		if process.CauseOf(err) != process.CauseWaitsForOthers {
			refusal = err
		}
		return n.failed(refusal)
	}
	result, failure := n.resultOfFailedStart(err) //nolint:contextcheck // the session carries it
	switch {
	case failure != nil:
		return n.failed(err)
	case !resident:
		result.Change.Put.Hosted, result.Outcome.Hosted, result.Restore = false, false, false
	case result.Outcome.Hosted:
		result.Now = true // its order holds it, not a delay
		result.Outcome.Text += "; drover starts it as soon as its `after` is met"
	}
	return result
}

// Beside returns why a start fails beside copies that run now, however long it waits; nil if it does not.
func (o *Operator) Beside(ctx context.Context, e record.Entry, s Subject) error {
	if e.Op != process.Start {
		return nil
	}
	_, err := o.session(ctx, e, s).beside() //nolint:contextcheck // the session carries it
	return err
}

// refusal returns why a start that has not begun would fail by what it checks first: a later launch checks less. It is
// err, why it has not begun, if there is a copy to take over.
func (n *session) refusal(err error) error {
	if known := process.Validate(n.spec, n.op); known != nil {
		return known
	}
	if known := n.Allow(n.id, n.op, n.spec); known != nil {
		return known
	}
	if known := n.rivalry(instance.ClaimOfPlace(n.id, n.spec)); known != nil {
		return known
	}
	if known := n.mayHost(""); known != nil {
		return known
	}
	taken, known := n.beside()
	if known == nil && taken != nil {
		return err
	}
	return known
}

// SpecInForce returns the spec for an operation: the spec of the order, else the stored spec; nil if there is neither.
func SpecInForce(e record.Entry, s Subject) *process.Spec {
	if e.Spec == nil && s.Record != nil {
		return &s.Record.Spec
	}
	return e.Spec
}

// noSpec is the spec of a call that brings none, where none is stored.
func noSpec() *process.Spec { return &process.Spec{Compat: &spec.Compat{}} }

// unregistered is the result of an operation that needs a stored spec when none is stored.
func (n *session) unregistered() Result {
	n.spec = noSpec()
	return n.failed(process.Errorf(process.Failed,
		"cannot %s the process: it is not registered on this host and the call brings no spec", n.op))
}

// run carries out the operation.
func (n *session) run() (Result, error) {
	if err := process.Validate(n.spec, n.op); err != nil {
		return Result{}, err
	}
	act, ok := actions[n.op.Name()]
	if !ok {
		return Result{}, process.Errorf(process.IllegalOp, "there is no operation %q", n.op)
	}
	return act(n)
}

// Begun reports whether an operation had begun in an earlier life of the agent.
func (o *Operator) Begun(item string) bool {
	progress, err := o.Journal.GetProgress(item)
	return err == nil && (progress.Checked || len(progress.Steps) > 0)
}

// Allow returns nil if the policy of the host allows an operation with this spec. It also covers what drover does by
// itself: a relaunch and a run of a timetable count as a Start, an end for a limit or bad health as a Stop.
func (o *Operator) Allow(id process.ID, op process.Op, spec *process.Spec) error {
	if o.Policy == nil {
		return nil
	}
	return o.Policy.Allow(id, op, spec)
}

// MayAsk reports whether the policy of the host allows the health and version commands of the spec.
func (o *Operator) MayAsk(id process.ID, spec *process.Spec) bool {
	return o.Policy == nil || o.Policy.MayAsk(id, spec) == nil
}

// rivalry rejects an operation on a process that another drover of the host has claimed.
func (o *Operator) rivalry(claim string) error {
	if o.Claims == nil {
		return nil
	}
	rival := o.Claims.Rival(claim)
	if rival == 0 {
		return nil
	}
	return process.Errorf(process.Failed, "nothing was done: %s", instance.RivalText(rival)).Because(process.CauseRival)
}

// mayAct rejects an end of a process that another supervisor keeps, because it would start the process again. It also
// rejects a start after the end of such a process until the supervisor has let go, because the process could run twice.
func (n *session) mayAct(waits process.Waits, storesSpec bool) error {
	k, runs := n.runtime.ForeignSupervisor, n.runtime.Process != nil
	acts := waits >= process.WaitsForEnd
	if !runs { // with a wish, the caller has decided
		acts = n.wish == "" && storesSpec && waits != process.WaitsForNothing
	}
	if k == nil || !acts || n.Claims == nil || !n.Claims.Supervises(*k) {
		return nil
	}
	text := k.Text(true)
	if runs {
		text = k.Refusal()
	}
	return process.Errorf(process.Failed, "nothing was done: %s", text).Because(process.CauseKept)
}
