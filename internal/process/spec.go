package process

import "drover/internal/spec"

// Spec describes how to run a process: see package spec.
type Spec = spec.Spec

// The choices of a spec: see package spec.
type (
	Kind      = spec.Kind
	When      = spec.When
	After     = spec.After
	Overlap   = spec.Overlap
	Missed    = spec.Missed
	StopScope = spec.StopScope
	Beside    = spec.Beside
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
