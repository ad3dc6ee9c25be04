package process

import "drover/internal/spec"

// Spec describes how to run a process: see package spec.
type Spec = spec.Spec

// The choices of a spec.
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
	Periodic, Resident, SingleRun            = spec.Periodic, spec.Resident, spec.SingleRun
	Always, OnFailure, Never                 = spec.Always, spec.OnFailure, spec.Never
	AfterStarted, AfterReady, AfterFinished  = spec.AfterStarted, spec.AfterReady, spec.AfterFinished
	OverlapSkip, OverlapWait, OverlapReplace = spec.OverlapSkip, spec.OverlapWait, spec.OverlapReplace
	MissedSkip, MissedRun                    = spec.MissedSkip, spec.MissedRun
	ScopeTree, ScopeProcess                  = spec.ScopeTree, spec.ScopeProcess
	Refuse, TakeOver, Adopt, StartBeside     = spec.Refuse, spec.TakeOver, spec.Adopt, spec.StartBeside
	LeaveStop, DriftMend                     = spec.LeaveStop, spec.DriftMend
	Unlimited                                = spec.Unlimited
)

// LimitText is a limit of setrlimit(2) as a process file has it: a number or infinity.
func LimitText(n int64) string { return spec.LimitNumber(n).String() }
