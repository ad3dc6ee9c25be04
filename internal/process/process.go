// Package process holds the nouns that server and agent share: the name of a process, its spec, the operations on it
// and their outcomes. From drover it imports only the parser of crontab rules and the types of the own API. It does no
// I/O.
package process

import (
	"crypto/sha256"
	"encoding/hex"

	v1 "drover/api/v1"
)

// ID names a process within one agent. Both parts are the caller's own words. drover never alters or trims them, and
// never uses them as a path, a subject or a cgroup name: Hash is for that.
type ID = v1.ProcessID

// Hash returns 32 lower-case hexadecimal digits that represent an id in places that allow only safe characters.
func Hash(id ID) string {
	h := sha256.New()
	h.Write([]byte(id.Namespace))
	h.Write([]byte{0})
	h.Write([]byte(id.Name))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Spec describes how to run a process. A sent spec replaces the stored spec completely: an empty command stays empty.
// Drover's own API, the wire, and the disks of servers and agents have it in the same JSON.
type Spec v1.Spec

// The parts of a spec. Only drover's own API can set Schedule, HardLimits, Readiness and Probes.
type (
	// Identity says where a process lives and how to recognise it.
	Identity = v1.Identity
	// Commands are shell command lines; each may be empty.
	Commands = v1.Commands
	// Limits are upper limits, in percent of the whole machine or as counts.
	Limits = v1.Limits
	// Policy says how drover watches a process, and how long its operations may take.
	Policy = v1.Policy
	// Kind says how long a process is meant to run.
	Kind = v1.Kind
	// Schedule says how drover runs a periodic process; Policy.Crontab or Policy.CycleTime say when.
	Schedule = v1.Schedule
	// Overlap is a choice of Schedule; empty means OverlapSkip.
	Overlap = v1.Overlap
	// Missed is a choice of Schedule; empty means MissedSkip.
	Missed = v1.Missed
	// HardLimits are limits that the kernel enforces; 0 means no limit.
	HardLimits = v1.HardLimits
	// Readiness decides when a start has succeeded, within the start check time; exactly one of its fields is set.
	Readiness = v1.Readiness
	// Probes say how often drover runs the health and version commands.
	Probes = v1.Probes
	// ConfigFile is a configuration file whose checksum drover watches.
	ConfigFile = v1.ConfigFile
)

// The values of Kind, Overlap and Missed.
const (
	Periodic       = v1.Periodic
	Resident       = v1.Resident
	SingleRun      = v1.SingleRun
	OverlapSkip    = v1.OverlapSkip
	OverlapWait    = v1.OverlapWait
	OverlapReplace = v1.OverlapReplace
	MissedSkip     = v1.MissedSkip
	MissedRun      = v1.MissedRun
)

// Group limits the sum of what the processes of a namespace use on one host.
type Group struct {
	ID string `json:"id"`
	// CPULimit and MemLimit are percent of the whole machine; 0 is no limit.
	CPULimit float64 `json:"cpu_limit,omitempty"`
	MemLimit float64 `json:"mem_limit,omitempty"`
	// CPUWeight and MemWeight are 0 or 1: whether the choice of a victim considers a process's own limit.
	CPUWeight int `json:"cpu_weight,omitempty"`
	MemWeight int `json:"mem_weight,omitempty"`
}
