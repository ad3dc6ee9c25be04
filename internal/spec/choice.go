package spec

import (
	"fmt"
	"strings"
)

// Kind says how long a process is meant to run.
type Kind string

// The kinds: run by a timer, kept running (the default), or run once.
const (
	Periodic  Kind = "periodic"
	Resident  Kind = "resident"
	SingleRun Kind = "single-run"
)

// Leave is what becomes of a process on a host that ceases to match; empty means that the process stays.
type Leave string

// The values of Leave: the process stays, or is stopped and then removed.
const (
	LeaveKeep Leave = "keep"
	LeaveStop Leave = "stop"
)

// Drifting is what the server does about drift; empty means that it only reports.
type Drifting string

// The values of Drifting: the server reports, or makes the process anew as its spec says.
const (
	DriftReport Drifting = "report"
	DriftMend   Drifting = "mend"
)

// After is a state that another process must have before a start.
type After string

// The values of After: the other process runs, is ready, or has succeeded.
const (
	AfterStarted  After = "started"
	AfterReady    After = "ready"
	AfterFinished After = "finished"
)

// When says after which ends a hosted process is relaunched; empty means Always.
type When string

// The values of When: after every end, after a failure, or never.
const (
	Always    When = "always"
	OnFailure When = "on-failure"
	Never     When = "never"
)

// Overlap is a choice of Schedule; empty means OverlapSkip.
type Overlap string

// The choices for a run that is due while the previous run still runs: skip it, run it afterwards (once, however many
// were due), or end the previous run.
const (
	OverlapSkip    Overlap = "skip"
	OverlapWait    Overlap = "wait"
	OverlapReplace Overlap = "replace"
)

// Missed is a choice of Schedule; empty means MissedSkip.
type Missed string

// The choices after the agent or its host was down: wait for the next time, or run once now.
const (
	MissedSkip Missed = "skip"
	MissedRun  Missed = "run-once"
)

// StopScope says which processes drover ends with a process; empty means ScopeTree.
type StopScope string

// The scopes: the process with all processes of its run, or the main process alone.
const (
	ScopeTree    StopScope = "tree"
	ScopeProcess StopScope = "process"
)

// Beside says what a start does if a copy of the process runs that drover does not watch. Only drover's own API asks
// for it: a start of the compatible APIs does not look for copies.
type Beside string

// The values of Beside: the start fails and names the copies; the copy becomes the process; the process starts beside
// the copies.
const (
	Refuse   Beside = ""
	TakeOver Beside = "take-over"
	// Adopt is TakeOver that starts nothing: without a copy it fails.
	Adopt       Beside = "adopt"
	StartBeside Beside = "start"
)

// WithPID returns Adopt of the process with that pid that began at that time, in clock ticks since boot. Then the
// command line and the directory of the process do not count. If another supervisor keeps it as its main process, its
// executable does not count either, nor its account in place of root: it may have changed both.
func (b Beside) WithPID(pid int, began uint64) Beside {
	return b + Beside(fmt.Sprintf(":%d:%d", pid, began))
}

// Split returns the value without the parts of WithPID, and these; 0 if there are none.
func (b Beside) Split() (wish Beside, pid int, began uint64) {
	name, rest, _ := strings.Cut(string(b), ":")
	_, _ = fmt.Sscanf(rest, "%d:%d", &pid, &began) // the server has made it
	return Beside(name), pid, began
}
