package process

import (
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/spec"
)

// Op is an operation on a process.
type Op string

// The operations. Ops has a row for each.
const (
	Query   Op = "query"
	Start   Op = "start"
	Stop    Op = "stop"
	Restart Op = "restart"
	Reload  Op = "reload"
	Kill    Op = "kill"
	// Signal has an argument: see SignalOp.
	Signal Op = "signal"
	// Preflight asks whether a process could start, and ends nothing.
	Preflight Op = "preflight"
	Host      Op = "host"
	Unhost    Op = "unhost"
	// Retry restores the relaunch budget of a hosted process. If the process is down, Retry starts it now.
	Retry      Op = "retry"
	Register   Op = "register"
	Update     Op = "update"
	Unregister Op = "unregister"
	// SetGroups replaces the process groups of a namespace on a host; its process id has no name.
	SetGroups Op = "set-groups"
	// Upgrade replaces the program of the agent of a host. It has an argument: see UpgradeOp.
	Upgrade Op = "upgrade"
)

// OpInfo is the row of one operation: everything that drover's code asks about an operation, apart from its action.
// docs/adding/op.md says which file reads each field.
type OpInfo struct {
	Op Op
	// Argument is the word for the argument of the operation, such as "SIGNAL"; empty if it has none.
	Argument string
	// GSE is the op_type of the GSE API and of JOB's operate_process; JOB is the op_type of JOB's manage_proc. NoNumber
	// stands for none.
	GSE, JOB int
	// Group is the group of rights that contains the operation.
	Group OpGroup
	// Right is the name of the right that the operation needs; empty if it is the name of the operation.
	Right string
	// OwnAPI tells whether a request of drover's own API may name the operation.
	OwnAPI bool
	// Spec says what the operation does with a spec.
	Spec SpecUse
	// StoresSpec tells whether the operation stores the sent spec, so that all of the spec must be valid.
	StoresSpec bool
	// Revises says how the operation changes the stored spec of its process.
	Revises Revises
	// RunsCommands tells whether the operation may run commands of its process. A reboot in the middle then leaves its
	// outcome open.
	RunsCommands bool
	// Acts tells whether the operation acts on a process or has it kept running. Another drover on the host may then be
	// in its way, and its failure explains the state of the process.
	Acts bool
	// Observes tells whether the operation neither runs nor ends anything, now or later.
	Observes bool
	// Ends tells whether the operation only ends its process or leaves it alone. A full disk does not prevent it.
	Ends bool
	// RollsOut tells whether the operation can spread over hosts in batches.
	RollsOut bool
	// Passes says which older operations of its process the operation passes.
	Passes Passes
	// Waits says which checks the operation waits for, beside its commands.
	Waits Waits
	// Order says which processes an ordered operation waits for (Spec.After).
	Order Order
	// Event tells of the success of the operation; empty if nothing changes.
	Event EventKind
	// Rest says why the process is at rest after the success of the operation.
	Rest Rest
	// HasCommand tells whether drover's CLI has a command with the name of the operation.
	HasCommand bool
}

// LeavesRunning reports whether processes are watched and should run after the operation.
func (o *OpInfo) LeavesRunning() bool { return !o.Ends && o.Revises != RevisesAway }

// NoNumber is the op_type of an operation that has none.
const NoNumber = -1

// OpGroup is a group of operations that a right can name.
type OpGroup string

// The groups: operations that change nothing, operations on a registered process, and operations that register and
// unregister a process or set shared limits.
const (
	GroupRead    OpGroup = "read"
	GroupOperate OpGroup = "operate"
	GroupSetup   OpGroup = "setup"
	// GroupHosts are the operations on hosts; no right names the group.
	GroupHosts OpGroup = "hosts"
)

// SpecUse says what an operation does with a spec. Each value includes the duties of the values before it.
type SpecUse int

// The uses of a spec.
const (
	// SpecIgnored: the operation reads no spec.
	SpecIgnored SpecUse = iota
	// SpecChecked: a sent spec must be valid.
	SpecChecked
	// SpecNeeded: there must be a spec, sent or stored.
	SpecNeeded
	// SpecSent: the request must bring the spec.
	SpecSent
)

// Revises says how an operation changes the stored spec of its process.
type Revises int

// The changes: none; the sent spec of a process that the agent does not know yet; any sent spec; the removal of the
// process with its spec.
const (
	RevisesNothing Revises = iota
	RevisesNew
	RevisesAny
	RevisesAway
)

// Passes says which older, unfinished operations of its process an operation passes. Servers store the number.
type Passes int

// What an operation passes: nothing, the check after a command, or everything.
const (
	PassesNothing Passes = iota
	PassesChecks
	PassesAll
)

// Waits says which checks an operation waits for.
type Waits int

// The checks: none, of a start, of an end, or of an end and a start.
const (
	WaitsForNothing Waits = iota
	WaitsForStart
	WaitsForEnd
	WaitsForBoth
)

// Order says which processes an ordered operation waits for.
type Order int

// The processes: none, those that it is after until they are up, those that it is after until their operations have
// ended, or those that are after it until their operations of the same kind have ended.
const (
	Unordered Order = iota
	AfterOthers
	AfterOperations
	BeforeOthers
)

// Rest explains why a process is not running, or not kept running. Without an ID, the former reason is cleared.
type Rest struct {
	// Keep leaves the former reason as it is.
	Keep bool
	ID   CauseID
	// Verb is what the caller did with the process ("stopped"); Then ends the sentence.
	Verb, Then string
}

// Ops returns one row per operation.
func Ops() []OpInfo { return slices.Clone(ops[:]) }

// SignalOp returns the operation that sends a signal, such as "HUP": to the main process, or to all processes of the
// run. It is "signal:HUP", or "signal:HUP:tree".
func SignalOp(name string, tree bool) Op {
	o := Signal + ":" + Op(name)
	if tree {
		o += ":" + Op(v1.ScopeTree)
	}
	return o
}

// StartOp returns a start with a wish about copies that drover does not watch: "start:take-over", "start:beside", or
// Start itself. An agent that is too old to know a wish refuses to start beside copies.
func StartOp(wish Beside) Op {
	switch wish {
	case TakeOver:
		return Start + ":take-over"
	case StartBeside:
		return Start + ":beside"
	case Refuse, Adopt: // the own API asks for Adopt in an apply only
	}
	return Start
}

// Beside returns the wish of a StartOp; Refuse if there is none.
func (o Op) Beside() Beside {
	for _, wish := range []Beside{TakeOver, StartBeside} {
		if o == StartOp(wish) {
			return wish
		}
	}
	return Refuse
}

// ForcedOp returns a restart or a reload that goes past the preflight: "restart:force". It returns another operation as
// it is.
func ForcedOp(o Op) Op {
	if o == Restart || o == Reload {
		return o + force
	}
	return o
}

const force = ":force"

// Forced reports whether the operation is a ForcedOp.
func (o Op) Forced() bool {
	name, forced := strings.CutSuffix(string(o), force)
	return forced && ForcedOp(Op(name)) == o
}

// UpgradeOp returns the operation that makes the agent of a host run a version, such as "upgrade:1.4.0". Its process is
// AgentID.
func UpgradeOp(version string) Op { return Upgrade + ":" + Op(version) }

// AgentID is the process of operations on the agent itself. No agent has a record of it.
func AgentID() ID { return ID{Namespace: "drover", Name: "agent"} }

// Version returns the argument of an UpgradeOp; empty if it is none.
func (o Op) Version() string {
	name, version, _ := strings.Cut(string(o), ":")
	if Op(name) != Upgrade {
		return ""
	}
	return version
}

// Name returns the operation without its argument.
func (o Op) Name() Op {
	name, _, _ := strings.Cut(string(o), ":")
	return Op(name)
}

// Signal returns the arguments of a SignalOp; ok is false if they make no sense.
func (o Op) Signal() (name string, tree, ok bool) {
	op, argument, _ := strings.Cut(string(o), ":")
	if Op(op) != Signal {
		return "", false, false
	}
	name, scope, scoped := strings.Cut(argument, ":")
	return name, scoped, slices.Contains(spec.Signals(), name) && (!scoped || scope == v1.ScopeTree)
}

// Info returns the row of the operation. drover treats an operation without a row as one that runs commands.
func (o Op) Info() OpInfo {
	name := o.Name()
	for i := range ops {
		if ops[i].Op == name {
			return ops[i]
		}
	}
	return OpInfo{Op: o, GSE: NoNumber, JOB: NoNumber, Spec: SpecNeeded, RunsCommands: true}
}

// Known reports whether the operation has a row, and the argument that the row asks for.
func (o Op) Known() bool {
	if _, _, ok := o.Signal(); ok || o.Version() != "" || o.Beside() != Refuse || o.Forced() {
		return true
	}
	return slices.ContainsFunc(ops[:], func(row OpInfo) bool { return row.Op == o && row.Argument == "" })
}

// OpOfGSE returns the operation of an op_type of the GSE API or of JOB's operate_process; there is no 5 and no 6.
func OpOfGSE(opType int64) (Op, bool) {
	return numbered(opType, func(row *OpInfo) int { return row.GSE })
}

// OpOfJOB returns the operation of an op_type of JOB's manage_proc, in which 1 and 2 have their own meaning.
func OpOfJOB(opType int64) (Op, bool) {
	return numbered(opType, func(row *OpInfo) int { return row.JOB })
}

func numbered(opType int64, column func(*OpInfo) int) (Op, bool) {
	for i := range ops {
		if n := column(&ops[i]); n != NoNumber && int64(n) == opType {
			return ops[i].Op, true
		}
	}
	return "", false
}

// OpsIn lists the operations of a group.
func OpsIn(group OpGroup) (list []Op) {
	for i := range ops {
		if ops[i].Group == group {
			list = append(list, ops[i].Op)
		}
	}
	return list
}

// ops is the table. Its order is the order of operations in lists and messages.
//
//nolint:gochecknoglobals // a table that nothing changes
var ops = [...]OpInfo{
	{
		Op: Query, GSE: 2, JOB: NoNumber, Group: GroupRead, Observes: true, Passes: PassesChecks,
	},
	{
		Op: Start, Revises: RevisesAny, GSE: 0, JOB: NoNumber, Group: GroupOperate, OwnAPI: true, RollsOut: true,
		Spec: SpecNeeded, StoresSpec: true, RunsCommands: true, Acts: true, Waits: WaitsForStart, Event: EventStarted,
		Order: AfterOthers, HasCommand: true,
	},
	{
		Op: Stop, Revises: RevisesNew, GSE: 1, JOB: NoNumber, Group: GroupOperate, OwnAPI: true, RollsOut: true,
		Spec: SpecNeeded, RunsCommands: true, Acts: true, Ends: true, Passes: PassesChecks, Waits: WaitsForEnd,
		Event: EventStopped, Rest: Rest{ID: CauseStopped, Verb: "stopped"}, Order: BeforeOthers,
		HasCommand: true,
	},
	{
		Op: Restart, Revises: RevisesAny, GSE: 7, JOB: NoNumber, Group: GroupOperate, OwnAPI: true, RollsOut: true,
		Spec: SpecNeeded, StoresSpec: true, RunsCommands: true, Acts: true, Waits: WaitsForBoth, Event: EventRestarted,
		Order: AfterOperations, HasCommand: true,
	},
	{
		Op: Reload, Revises: RevisesAny, GSE: 8, JOB: NoNumber, Group: GroupOperate, OwnAPI: true, RollsOut: true,
		Spec: SpecNeeded, RunsCommands: true, Acts: true, Waits: WaitsForStart, Event: EventReloaded,
		Rest: Rest{Keep: true}, HasCommand: true,
	},
	{
		Op: Kill, Revises: RevisesNew, GSE: 9, JOB: NoNumber, Group: GroupOperate, OwnAPI: true, RollsOut: true,
		Spec: SpecNeeded, RunsCommands: true, Acts: true, Ends: true, Passes: PassesAll, Waits: WaitsForEnd,
		Event: EventKilled, Rest: Rest{ID: CauseStopped, Verb: "stopped"},
		HasCommand: true,
	},
	{
		Op: Signal, Argument: "SIGNAL", GSE: NoNumber, JOB: NoNumber, Group: GroupOperate, OwnAPI: true, RollsOut: true,
		Spec: SpecNeeded, Acts: true, Passes: PassesChecks, Event: EventSignalled, Rest: Rest{Keep: true},
		HasCommand: true,
	},
	{
		Op: Preflight, GSE: NoNumber, JOB: NoNumber, Group: GroupOperate, OwnAPI: true, Spec: SpecNeeded,
		RunsCommands: true, Waits: WaitsForStart, Rest: Rest{Keep: true},
		HasCommand: true,
	},
	{
		Op: Host, Revises: RevisesAny, GSE: 3, JOB: 1, Group: GroupOperate, OwnAPI: true, RollsOut: true,
		Spec: SpecNeeded, StoresSpec: true, Acts: true, Event: EventHosted,
		HasCommand: true,
	},
	{
		Op: Unhost, GSE: 4, JOB: 2, Group: GroupOperate, OwnAPI: true, RollsOut: true, Observes: true, Ends: true,
		Passes: PassesChecks, Event: EventUnhosted, Rest: Rest{ID: CauseUnhosted, Verb: "unhosted"},
		HasCommand: true,
	},
	{
		Op: Retry, GSE: NoNumber, JOB: NoNumber, Group: GroupOperate, OwnAPI: true, RollsOut: true,
		Spec: SpecChecked, Event: EventRetried, // drover checks its result like a start
		HasCommand: true,
	},
	{
		Op: Register, Revises: RevisesNew, GSE: NoNumber, JOB: NoNumber, Group: GroupSetup, OwnAPI: true,
		Spec: SpecSent, StoresSpec: true, Observes: true, Event: EventRegistered,
		Rest: Rest{ID: CauseNeverStarted, Verb: "registered", Then: " and never started"},
	},
	{
		Op: Update, Revises: RevisesAny, GSE: NoNumber, JOB: NoNumber, Group: GroupSetup, OwnAPI: true,
		Spec: SpecSent, StoresSpec: true, Observes: true, Event: EventUpdated, Rest: Rest{Keep: true},
	},
	{
		Op: Unregister, GSE: NoNumber, JOB: NoNumber, Group: GroupSetup, OwnAPI: true, RollsOut: true, Observes: true,
		Revises: RevisesAway, Event: EventUnregistered,
		HasCommand: true,
	},
	{
		Op: SetGroups, GSE: NoNumber, JOB: NoNumber, Group: GroupSetup, Right: "set-group", Observes: true,
	},
	{
		Op: Upgrade, Argument: "VERSION", GSE: NoNumber, JOB: NoNumber, Group: GroupHosts, Right: "upgrade-agents",
	},
}
