package v1

import "drover/internal/spec"

// The types of a process file, and of the values in it.
type (
	// Spec says how drover runs a process: drover explain describes each field.
	Spec           = spec.Spec
	Variables      = spec.Variables
	Before         = spec.Before
	BeforeStop     = spec.BeforeStop
	Limits         = spec.Limits
	Thresholds     = spec.Thresholds
	Schedule       = spec.Schedule
	Ready          = spec.Ready
	Restart        = spec.Restart
	Health         = spec.Health
	Timeouts       = spec.Timeouts
	Log            = spec.Log
	ConfigFile     = spec.ConfigFile
	Compat         = spec.Compat
	CompatResource = spec.CompatResource
	RolloutPlan    = spec.RolloutPlan
	Leave          = spec.Leave
	Drifting       = spec.Drifting
	When           = spec.When
	Overlap        = spec.Overlap
	Missed         = spec.Missed
	StopScope      = spec.StopScope

	Hosts       = spec.Hosts
	StopSignal  = spec.StopSignal
	Reload      = spec.Reload
	Status      = spec.Status
	Duration    = spec.Duration
	Size        = spec.Size
	LimitSize   = spec.LimitSize
	LimitNumber = spec.LimitNumber
	Percent     = spec.Percent
	Count       = spec.Count
	HostCount   = spec.HostCount
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
