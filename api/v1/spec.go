package v1

import "drover/internal/spec"

type (
	// Spec says how drover runs a process: drover explain describes each field.
	Spec = spec.Spec
	// Variables are environment variables by name.
	Variables = spec.Variables
	// Before is a command that must succeed before a start or a restart.
	Before = spec.Before
	// BeforeStop is a command before a stop, and the pause after it.
	BeforeStop = spec.BeforeStop
	// Limits are enforced by the kernel.
	Limits = spec.Limits
	// Thresholds are judged by drover, in percent of the whole machine.
	Thresholds = spec.Thresholds
	// Schedule says when a periodic process runs.
	Schedule = spec.Schedule
	// Ready decides when a start has succeeded.
	Ready = spec.Ready
	// Restart is the policy of relaunches.
	Restart = spec.Restart
	// Health is the check of a running process.
	Health = spec.Health
	// Timeouts bound the commands of a process.
	Timeouts = spec.Timeouts
	// Log bounds what drover keeps of the output.
	Log = spec.Log
	// ConfigFile is a file whose checksum drover compares.
	ConfigFile = spec.ConfigFile
	// Compat holds what the GSE and JOB APIs alone know of a process.
	Compat = spec.Compat
	// CompatResource are numbers of a GSE resource that limit nothing.
	CompatResource = spec.CompatResource
	// RolloutPlan says how an operation or an apply spreads over its hosts.
	RolloutPlan = spec.RolloutPlan
	// Leave is what becomes of a process on a host that ceases to match.
	Leave = spec.Leave
	// Drifting is what the server does about drift.
	Drifting = spec.Drifting
	// When says after which ends a process is relaunched.
	When = spec.When
	// Overlap is the choice for a run that is due while the run before lasts.
	Overlap = spec.Overlap
	// Missed is the choice for runs that were due while the host was down.
	Missed = spec.Missed
	// StopScope says which processes a stop ends.
	StopScope = spec.StopScope
	// Hosts chooses hosts: by their names, or by an expression.
	Hosts = spec.Hosts
	// StopSignal is one step of a stop: a signal, and the time until the next one.
	StopSignal = spec.StopSignal
	// Reload is a command line or a signal.
	Reload = spec.Reload
	// Status is how a process ends: an exit code or a signal.
	Status = spec.Status
	// Duration is a length of time, such as 10s.
	Duration = spec.Duration
	// Size is a number of bytes, such as 64MiB.
	Size = spec.Size
	// LimitSize is a Size or infinity.
	LimitSize = spec.LimitSize
	// LimitNumber is a number or infinity.
	LimitNumber = spec.LimitNumber
	// Percent is a share in percent.
	Percent = spec.Percent
	// Count is a number of times, or never.
	Count = spec.Count
	// HostCount is a number or a share of hosts.
	HostCount = spec.HostCount
)

// File is a process file: processes of one namespace. A process may be in several parts, for different hosts.
type File struct {
	Namespace string `json:"namespace"`
	// Revision is the revision of the namespace that the file shows; 0 if it is unknown. An apply ignores it.
	Revision  int64           `json:"revision,omitempty"`
	Processes map[string]Spec `json:"processes"`
	// More are further documents of the same namespace.
	More []map[string]Spec `json:"more,omitempty"`
}

// ParseHostCount reads a number of hosts such as 20, or a share of all hosts such as 10%.
func ParseHostCount(text string) (HostCount, error) { return spec.ParseHostCount(text) }
