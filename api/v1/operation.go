package v1

import "time"

// The operations that a Request can ask for, as Op.
const (
	OpStart      = "start"
	OpStop       = "stop"
	OpRestart    = "restart"
	OpReload     = "reload"
	OpKill       = "kill"
	OpSignal     = "signal"
	OpPreflight  = "preflight"
	OpHost       = "host"
	OpUnhost     = "unhost"
	OpRetry      = "retry"
	OpRegister   = "register"
	OpUpdate     = "update"
	OpUnregister = "unregister"
)

// The receivers of a signal: the main process, or all processes of its run.
const (
	ScopeProcess = "process"
	ScopeTree    = "tree"
)

// The states of a Task.
const (
	TaskRunning = "running"
	TaskDone    = "done"
)

// The outcomes of a Result: OutcomePending, OutcomeOK, or a kind of failure. A filter by OutcomeFailed selects every
// kind of failure.
const (
	OutcomePending           = "pending"
	OutcomeOK                = "ok"
	OutcomeFailed            = "failed"             // the command failed, or drover cannot execute the request
	OutcomeAgentUnavailable  = "agent-unavailable"  // the agent is unknown or away, or did not answer
	OutcomeAlreadyRunning    = "already-running"    // a start found the process alive
	OutcomeNotRunning        = "not-running"        // a stop or kill found no process, an unregister no record
	OutcomeIllegalOp         = "illegal-op"         // there is no such operation
	OutcomeCheckFailed       = "check-failed"       // the state after the command is wrong
	OutcomeAlreadyRegistered = "already-registered" // a register found a record
	OutcomeCancelled         = "cancelled"          // the operation was cancelled before it began, and never begins
)

// Request asks for one operation on one or more processes.
type Request struct {
	// Op is one of the constants above, such as OpStart.
	Op string `json:"op"`
	// Targets are single processes. Processes are patterns NAMESPACE/NAME instead: the server resolves them, once, to
	// the processes that the caller may query.
	Targets   []Target `json:"targets,omitempty"`
	Processes []string `json:"processes,omitempty"`
	// Hosts are ids, cloud:ip or patterns of either. Labels is an expression about labels of processes. Both narrow
	// Processes.
	Hosts  []string `json:"hosts,omitempty"`
	Labels string   `json:"labels,omitempty"`
	// Select is an expression such as "role=web,zone!=b" about labels and facts of hosts. Each target is only for the
	// hosts that match. The server resolves it once, and keeps the result with the operation.
	Select string `json:"select,omitempty"`
	// Selection is the id of a Selection, in place of Targets and Processes: the operation is for exactly its
	// processes.
	Selection string `json:"selection,omitempty"`
	// Signal is the name of the signal of OpSignal, such as "HUP". Scope is ScopeProcess, which is the default, or
	// ScopeTree.
	Signal string `json:"signal,omitempty"`
	Scope  string `json:"scope,omitempty"`
	// TakeOver is for OpStart: an unwatched copy of the process becomes the process, as it runs. Beside starts the
	// process all the same. Without both, a start beside an unwatched copy fails, and names the copy.
	TakeOver bool `json:"take_over,omitempty"`
	Beside   bool `json:"beside,omitempty"`
	// Force is for OpRestart and OpReload: they go past the preflight.
	Force bool `json:"force,omitempty"`
	// Spec describes the processes; if it is nil, each host uses its stored spec. Register and update need a spec.
	Spec *Spec `json:"spec,omitempty"`
	// HostTimeout is the time in seconds in which each host must accept the operation. After that time the result of
	// the host is agent-unavailable, and the host does not begin the operation later. If it is 0, the server chooses.
	HostTimeout int `json:"host_timeout_seconds,omitempty"`
	// Rollout spreads the operation over the hosts in batches. The answer is then a Rollout. It is for every
	// operation but register and update, without a spec.
	Rollout *RolloutPlan `json:"rollout,omitempty"`
	// OneOf carries out the operation on one connected host only. The answer is then a Rollout: another host gets the
	// operation only if the one before certainly never begins it. AgainWhenLost also goes on after a host that may have
	// begun it and has vanished.
	OneOf         bool `json:"one_of,omitempty"`
	AgainWhenLost bool `json:"again_when_lost,omitempty"`
	// At is when the rollout begins: a time of day in the time zone of the server such as "03:00", or a time in RFC
	// 3339. Empty means at once.
	At string `json:"at,omitempty"`
}

// Target is one process on some hosts.
type Target struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Hosts are ids or cloud:ip; an empty list means every host that knows the process.
	Hosts []string `json:"hosts,omitempty"`
}

// OperationPlan is what a Request would do.
type OperationPlan struct {
	// Targets are the processes, each with its hosts.
	Targets []Target `json:"targets"`
	// Away are the hosts that are not connected now.
	Away []string `json:"away,omitempty"`
	// Rollout has the batches, without an id; nil if all hosts would begin at once.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Reason says why the server would refuse the request without its dry run, or hold its rollout: the request reaches
	// more hosts than one person may change, or a rollout over one of its processes is active. It is empty if there is
	// nothing of the kind.
	Reason string `json:"reason,omitempty"`
	// Refused is the status of that refusal, such as 409; 0 if the server would not refuse the request.
	Refused int `json:"refused,omitempty"`
}

// Task is the request of one call, and its progress.
type Task struct {
	ID string `json:"id"`
	// Op and Subject describe the first request; Requests is the number of requests.
	Op       string `json:"op"`
	Subject  string `json:"subject"`
	Requests int    `json:"requests"`
	// Selector is the expression that selected the hosts; empty if there was none.
	Selector string `json:"selector,omitempty"`
	App      string `json:"app"`
	User     string `json:"user"`
	// Reason says why a server began the operation on behalf of the user: a rollout, a schedule, a selection, drift, or
	// a host that was away. It is empty if the request itself began the operation.
	Reason string `json:"reason,omitempty"`
	// RequestID identifies the call in the audit log.
	RequestID string    `json:"request_id"`
	CreatedAt time.Time `json:"created_at"`
	// State is TaskRunning, or TaskDone if every target has its outcome.
	State  string `json:"state"`
	Counts Counts `json:"counts"`
	// LeftOut counts the processes that match the filter of the selection now and did not when the selection was made.
	// The operation leaves these processes out. Only the answer to the request has LeftOut.
	LeftOut int `json:"left_out,omitempty"`
}

// SelectionRequest asks for a selection. The filter is in the query of the call, as in a list of processes.
type SelectionRequest struct {
	// Op is the operation that the selection is for. Then the answer tells what the caller may not operate on.
	Op string `json:"op,omitempty"`
	// Targets are exactly these processes instead of a filter. Except leaves processes out. The server rejects an empty
	// list of Targets that is not nil, so that a program that has found nothing does not select everything.
	Targets []Target `json:"targets,omitzero"`
	Except  []Target `json:"except,omitempty"`
	// Hosts are ids, cloud:ip or ip, without patterns, in place of the hosts of the filter. The server rejects an empty
	// list that is not nil here, too.
	Hosts []string `json:"hosts,omitzero"`
}

// Selection is the exact processes that a caller has chosen. The server keeps a selection for 15 minutes, for this
// caller only.
type Selection struct {
	ID        string    `json:"id"`
	ExpiresAt time.Time `json:"expires_at"`
	// Targets and Hosts count the processes and their hosts; Away counts the processes on hosts that are away.
	Targets int `json:"targets"`
	Hosts   int `json:"hosts"`
	Away    int `json:"away"`
	// Namespaces counts the processes of each namespace.
	Namespaces map[string]int `json:"namespaces"`
	// Sample has the first of the processes, at most 20.
	Sample []SelectedProcess `json:"sample"`
	// Denied has the first of the processes that the caller may not operate on, at most 20, and DeniedCount counts all
	// of them. An operation on a selection with such processes is rejected.
	Denied      []SelectedProcess `json:"denied,omitempty"`
	DeniedCount int               `json:"denied_count"`
	// KnownHosts counts the hosts that Hosts of the request name.
	KnownHosts int `json:"known_hosts,omitempty"`
	// UnknownHosts are the Hosts of the request that the server does not know, or that the caller may not read.
	UnknownHosts []string `json:"unknown_hosts,omitempty"`
}

// SelectedProcess is one process on one host.
type SelectedProcess struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      string `json:"host"`
}

// Cancellation is the answer to the cancellation of an operation: the number of its targets by what happens to them.
type Cancellation struct {
	// Cancelled targets never begin, and have the outcome OutcomeCancelled.
	Cancelled int `json:"cancelled"`
	// Asked targets may be at their hosts. A host that has not begun the operation ends it as OutcomeCancelled;
	// otherwise the operation goes on.
	Asked int `json:"asked"`
	// Begun targets go on.
	Begun int `json:"begun"`
	// Operation is the task after the cancellation.
	Operation Task `json:"operation"`
}

// Counts is the number of targets, in total and by outcome.
type Counts struct {
	Targets int `json:"targets"`
	OK      int `json:"ok"`
	Failed  int `json:"failed"`
	Pending int `json:"pending"`
}

// Result is the result for one process on one host.
type Result struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Host is the host in the caller's spelling.
	Host string `json:"host"`
	Op   string `json:"op"`
	// Outcome is one of the constants above, such as OutcomeOK. Message says more. A start of a running process is ok,
	// with the message "was already running". A stop or kill of a registered process that does not run is ok, with the
	// message "was already stopped". A pending target has a message while its host decides about a cancellation.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	// Already is set if the process was in the wanted state before, so that the operation has changed nothing.
	Already bool `json:"already,omitempty"`
	// Hosted is the hosting flag after the operation.
	Hosted bool `json:"hosted"`
}

// Done reports whether every target has its outcome.
func (o *Task) Done() bool { return o.State == TaskDone }

// Failed reports whether the operation on this target has failed.
func (r *Result) Failed() bool { return r.Outcome != OutcomeOK && r.Outcome != OutcomePending }
