package process

import (
	"errors"
	"fmt"
	"slices"

	v1 "drover/api/v1"
)

// Fault is the kind of a failure. Its zero value means success. Only the HTTP edge converts it to codes on the wire.
type Fault string

// The faults, as the outcomes of the own API.
const (
	None              Fault = ""
	AgentUnavailable  Fault = v1.OutcomeAgentUnavailable
	AlreadyRunning    Fault = v1.OutcomeAlreadyRunning
	NotRunning        Fault = v1.OutcomeNotRunning
	IllegalOp         Fault = v1.OutcomeIllegalOp
	CheckFailed       Fault = v1.OutcomeCheckFailed
	AlreadyRegistered Fault = v1.OutcomeAlreadyRegistered
	Cancelled         Fault = v1.OutcomeCancelled
	Failed            Fault = v1.OutcomeFailed
)

// NotBegun is the outcome of an operation that was cancelled before it began. The hosting flag is unknown.
func NotBegun() Outcome {
	return Outcome{Fault: Cancelled, Text: "cancelled: the operation was not begun"}
}

// Outcome is the one final answer to an operation on one process of one agent.
type Outcome struct {
	Fault Fault `json:"fault,omitempty"`
	// Text is "success", or the failure in the words that a caller sees. Cause is the kind of failure, if it is
	// known.
	Text  string  `json:"text"`
	Cause CauseID `json:"cause,omitempty"`
	// Hosted is the hosting flag after the operation.
	Hosted bool `json:"hosted"`
	// Status is set for a query only.
	Status *Status `json:"status,omitempty"`
}

// Already returns the text of an outcome in drover's own API if the process already was in the wanted state: a start
// of a running process, or a stop or kill of a process that does not run. Callers of GSE and JOB get a fault instead.
func Already(op Op, fault Fault) (text string, found bool) {
	switch {
	case op == Start && fault == AlreadyRunning:
		return "was already running", true
	case (op == Stop || op == Kill) && fault == NotRunning:
		return "was already stopped", true
	}
	return "", false
}

// Success is the text of an outcome without fault.
const Success = "success"

// Error is a failure with its kind, in a caller's words.
type Error struct {
	Fault Fault
	Text  string
	// Cause is empty if this kind of failure has no id.
	Cause CauseID
	// Output is the part of Text that a command wrote.
	Output string
}

// Errorf makes an Error.
func Errorf(f Fault, format string, args ...any) *Error {
	return &Error{Fault: f, Text: fmt.Sprintf(format, args...)}
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Because returns the error with the cause.
func (e *Error) Because(c CauseID) *Error {
	named := *e
	named.Cause = c
	return &named
}

// With returns the error with the part of its text that a command wrote.
func (e *Error) With(output string) *Error {
	told := *e
	told.Output = output
	return &told
}

// CauseOf returns the cause of an error; it is empty if the error has none.
func CauseOf(err error) CauseID {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Cause
	}
	return ""
}

// Status is an agent's knowledge of one process at one moment.
type Status struct {
	// Known tells whether the agent has a record of the process.
	Known  bool `json:"known"`
	Hosted bool `json:"hosted"`
	// Want is the goal of the last successful operation.
	Want Want `json:"want,omitempty"`
	// Revision belongs to the record, or to its removal. It rises with every change that an operation makes on this
	// host. 0 means unknown.
	Revision uint64 `json:"revision,omitempty"`
	// State is one of States; Message adds detail.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	// Cause explains why the process is not as it should be, or why it is down; its zero value means nothing to
	// explain.
	Cause Cause `json:"cause,omitzero"`
	// Further are the other causes, worst first.
	Further []Cause `json:"further,omitempty"`
	// Flapping tells that the process was relaunched too often lately. Restarts counts the relaunches since an
	// operation started it, in this boot.
	Flapping bool `json:"flapping,omitempty"`
	Restarts int  `json:"restarts,omitempty"`
	// LastExit tells how the last instance ended; nil if the agent saw no end.
	LastExit *Exit `json:"last_exit,omitempty"`
	// Health and Version are the last answers of the probes.
	Health  *Answer `json:"health,omitempty"`
	Version *Answer `json:"version,omitempty"`
	// Config lists the configuration files that differ from the spec.
	Config []Drift `json:"config,omitempty"`
	// Usage covers the whole process tree.
	Usage *Usage `json:"usage,omitempty"`
	// NextRun is when a periodic process is due, in Unix milliseconds; Runs are its last runs, newest first.
	NextRun int64 `json:"next_run,omitempty"`
	Runs    []Run `json:"runs,omitempty"`
	// ProcName is the base name of the executable, from the spec in force.
	ProcName string `json:"proc_name,omitempty"`
	// Unix seconds; 0 means never.
	RegisteredAt int64 `json:"registered_at,omitempty"`
	LastStartAt  int64 `json:"last_start_at,omitempty"`
	ReportedAt   int64 `json:"reported_at,omitempty"`
	// Instance is the running process; its PID is -1 if nothing runs.
	Instance Instance `json:"instance"`
}

// The states that drover shows.
const (
	StateUnknown   = v1.StateUnknown
	StateStopped   = v1.StateStopped
	StateScheduled = v1.StateScheduled
	StateStarting  = v1.StateStarting
	StateRunning   = v1.StateRunning
	StateFlapping  = v1.StateFlapping
	StateUnhealthy = v1.StateUnhealthy
	StateNotReady  = v1.StateNotReady
	StateStopping  = v1.StateStopping
	StateBackoff   = v1.StateBackoff
	StateGivenUp   = v1.StateGivenUp
	StateFinished  = v1.StateFinished
	StateOperating = v1.StateOperating
)

// NeverStarted reports whether a process was registered and not started: nobody has stopped it.
func (s *Status) NeverStarted() bool {
	if s.Want != WantStopped || s.Running() {
		return false
	}
	return s.Cause.ID == CauseNeverStarted || s.LastStartAt == 0 && s.Cause.ID == "" && s.Cause.Text == ""
}

// EndedBadly reports whether a process is over, and its single run has failed or could not begin. Of what is over,
// drover names the cause "finished" after a success only. An operation that waits, and an agent that is away, hide what
// the host has found.
func (s *Status) EndedBadly() bool {
	return s.State == StateFinished && s.Cause.ID != "" && !slices.Contains([]CauseID{
		CauseFinished, CauseRival, CauseKept, CauseOutside, CauseQueued, CauseOperating, CauseAgentAway,
	}, s.Cause.ID)
}

// States lists them.
func States() []string {
	return []string{
		StateUnknown, StateStopped, StateScheduled, StateStarting, StateRunning, StateFlapping, StateUnhealthy,
		StateNotReady, StateStopping, StateBackoff,
		StateGivenUp, StateFinished, StateOperating,
	}
}

// Answer is the last answer of a probe command.
type Answer struct {
	// OK tells whether the command exited with status 0 in time. Text is its output, or the reason of its failure.
	OK   bool   `json:"ok"`
	Text string `json:"text,omitempty"`
	// At is the end of the command, in Unix milliseconds.
	At int64 `json:"at"`
	// Failures counts the failures in a row; Bad tells that they make the process unhealthy.
	Failures int  `json:"failures,omitempty"`
	Bad      bool `json:"bad,omitempty"`
	// Said tells that the process itself has said that it is unhealthy, which needs no further failure.
	Said bool `json:"said,omitempty"`
	// Since is the time of the first failure in a row; 0 if the last answer was not a failure.
	Since int64 `json:"since,omitempty"`
}

// Drift is a configuration file that differs from the checksum in the spec.
type Drift struct {
	Path string `json:"path"`
	Want string `json:"want"`
	// Have is its checksum. If drover cannot read the file, Have is empty and Problem gives the reason.
	Have    string `json:"have,omitempty"`
	Problem string `json:"problem,omitempty"`
	Since   int64  `json:"since"` // Unix milliseconds
}

// LiveField is a field of a process file in which the running process differs from its spec. The values of environment
// variables are never in it.
type LiveField struct {
	Path string `json:"path"`
	Want string `json:"want,omitempty"`
	Have string `json:"have,omitempty"`
	// Problem says why drover does not know what the process has, or cannot change it.
	Problem string `json:"problem,omitempty"`
}

// Usage is the resource use of a process with its whole tree, in percent of the whole machine.
type Usage struct {
	CPU float64 `json:"cpu"`
	Mem float64 `json:"mem"`
	// RSS is Mem in bytes; 0 if that is not known.
	RSS int64 `json:"rss,omitempty"`
	// Processes is the number of processes in the tree, Files the number of files that the main process has open; 0 if
	// that is not known. At is in Unix milliseconds.
	Processes int   `json:"processes"`
	Files     int   `json:"files,omitempty"`
	At        int64 `json:"at"`
}

// MovedFrom reports whether the usage differs enough from the last report to be reported again: by 1 percent of the
// processors, or 0.5 percent of the memory.
func (u Usage) MovedFrom(told Usage) bool {
	const cpu, mem = 1, 0.5
	return max(u.CPU-told.CPU, told.CPU-u.CPU) >= cpu || max(u.Mem-told.Mem, told.Mem-u.Mem) >= mem
}

// Want is the expected state of a process (the "flag" of get_proc_status).
type Want string

// The expectations: none after an unhost, running after a start, host or restart, stopped after a stop, a kill or a
// registration.
const (
	WantNothing Want = ""
	WantRunning Want = "running"
	WantStopped Want = "stopped"
)

// Running reports whether a live process was seen.
func (s Status) Running() bool { return s.Instance.PID > 0 }

// Instance is one running process as /proc shows it.
type Instance struct {
	PID     int    `json:"pid"`
	Cmdline string `json:"cmdline,omitempty"`
	// Stat is the state letter of proc(5), such as "S".
	Stat string `json:"stat,omitempty"`
	// Halted is when drover first saw that a signal had stopped the process, in Unix milliseconds; 0 if it is not.
	Halted int64 `json:"-"`
	// StartedAt is in Unix seconds, Elapsed in seconds.
	StartedAt int64 `json:"started_at,omitempty"`
	Elapsed   int64 `json:"elapsed,omitempty"`
	// CPU is the share of the whole machine since the last sample, CPUAverage over the process's life, Mem the share of
	// physical memory; all in percent.
	CPU        float64 `json:"cpu,omitempty"`
	CPUAverage float64 `json:"cpu_average,omitempty"`
	Mem        float64 `json:"mem,omitempty"`
	// RSS and VSize are in KiB; UserTime and SystemTime in seconds.
	RSS        int64   `json:"rss,omitempty"`
	VSize      int64   `json:"vsize,omitempty"`
	UserTime   float64 `json:"user_time,omitempty"`
	SystemTime float64 `json:"system_time,omitempty"`
	Threads    int     `json:"threads,omitempty"`
	Version    string  `json:"version,omitempty"`
	Health     string  `json:"health,omitempty"`
	// Revision is the revision of the spec that it runs with; 0 if it is unknown. It is that of the stored spec
	// unless a change waits for the next start.
	Revision int64 `json:"revision,omitempty"`
}

// Suspended reports whether a signal such as SIGSTOP has stopped the process, so that it executes nothing. A process
// that a debugger has stopped does not count: a tracer stops its process for a moment at each call.
func (i *Instance) Suspended() bool { return i.Stat == "T" }
