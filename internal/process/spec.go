package process

import "drover/internal/spec"

// Spec describes how to run a process: see package spec.
type Spec = spec.Spec

type (
	// Kind says how long a process is meant to run.
	Kind = spec.Kind
	// When says after which ends a process is relaunched.
	When = spec.When
	// After is a state that another process must have before a start.
	After = spec.After
	// Overlap is the choice for a run that is due while the run before lasts.
	Overlap = spec.Overlap
	// Missed is the choice for runs that were due while the host was down.
	Missed = spec.Missed
	// StopScope says which processes a stop ends.
	StopScope = spec.StopScope
	// Beside says what a start does if an unwatched copy runs.
	Beside = spec.Beside
)

// The values of the choices: see package spec.
const (
	Periodic  = spec.Periodic
	Resident  = spec.Resident
	SingleRun = spec.SingleRun

	Always    = spec.Always
	OnFailure = spec.OnFailure
	Never     = spec.Never

	AfterStarted  = spec.AfterStarted
	AfterReady    = spec.AfterReady
	AfterFinished = spec.AfterFinished

	OverlapSkip    = spec.OverlapSkip
	OverlapWait    = spec.OverlapWait
	OverlapReplace = spec.OverlapReplace

	MissedSkip = spec.MissedSkip
	MissedRun  = spec.MissedRun

	ScopeTree    = spec.ScopeTree
	ScopeProcess = spec.ScopeProcess

	Refuse      = spec.Refuse
	TakeOver    = spec.TakeOver
	Adopt       = spec.Adopt
	StartBeside = spec.StartBeside

	LeaveStop = spec.LeaveStop
	DriftMend = spec.DriftMend

	Unlimited = spec.Unlimited
)

// LimitText is a limit of setrlimit(2) as a process file has it: a number or infinity.
func LimitText(n int64) string { return spec.LimitNumber(n).String() }
