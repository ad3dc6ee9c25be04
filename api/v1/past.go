package v1

import "time"

// Past says what a list about a moment of the past depends on.
type Past struct {
	// At is the moment, by the clock of each host.
	At time.Time `json:"at"`
	// KeptSince is when the server stored its oldest record; nil if it has none. States of earlier times are not known.
	KeptSince *time.Time `json:"kept_since,omitempty"`
	// ClockSeconds is how far the clock of a listed host is ahead of the server's now, for the host that differs most;
	// it is negative for a clock behind, and 0 below one second.
	ClockSeconds float64 `json:"clock_seconds,omitempty"`
}

// PastPage is one page of the processes at a moment of the past.
type PastPage struct {
	Page[Process]
	Past Past `json:"past"`
}

// Unknown tells that the state of a process at a moment is not known.
type Unknown struct {
	// Since is since when it is not known; nil if nobody can tell. Why is one of the constants below, and Text the same
	// in words. Last is the last known state.
	Since *time.Time `json:"since,omitempty"`
	Why   string     `json:"why"`
	Text  string     `json:"text"`
	Last  string     `json:"last,omitempty"`
}

// The reasons of an Unknown.
const (
	UnknownNotKept  = "not-kept"  // the server keeps no record of that time
	UnknownNotHeard = "not-heard" // no agent ran on the host, or the server has not heard it since
	UnknownStarting = "starting"  // the agent had just started
	UnknownLost     = "lost"      // records were lost
)

// Changes is what differs between two moments.
type Changes struct {
	From time.Time `json:"from"`
	Past Past      `json:"past"` // At is the end
	// Groups count the changes of processes: those that need attention first, then the largest. Changed is the number
	// of changed processes, and Unknown the number of those whose state at one of the moments is not known.
	Groups  []ChangeGroup `json:"groups"`
	Changed int           `json:"changed"`
	Unknown int           `json:"unknown"`
	// Processes are changed processes in the order of the groups.
	Processes []ProcessChange `json:"processes"`
	// Revisions, Operations and Rollouts began between the moments, oldest first; so did the changes of hosts.
	Revisions  []NamespaceRevision `json:"revisions"`
	Operations []Task              `json:"operations"`
	Rollouts   []Rollout           `json:"rollouts"`
	Hosts      []HostChange        `json:"hosts"`
	// OperationsKeptSince is since when the server keeps all operations and rollouts.
	OperationsKeptSince time.Time `json:"operations_kept_since"`
	// Incomplete names the fields above that leave out entries, because there are too many.
	Incomplete []string `json:"incomplete,omitempty"`
}

// ChangeGroup counts processes with the same change. From is empty for new processes, and To for removed ones. They are
// equal for processes that were started again between the moments.
type ChangeGroup struct {
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Cause string `json:"cause,omitempty"`
	Count int    `json:"count"`
	Hosts int    `json:"hosts"`
}

// ProcessChange is the change of one process on one host.
type ProcessChange struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      Host   `json:"host"`
	// From and To are as in ChangeGroup.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Cause is the cause of the later state. At is when the process got it.
	Cause *Cause     `json:"cause,omitempty"`
	At    *time.Time `json:"at,omitempty"`
	// The main processes, and the versions, at both moments; empty if none ran or it had no version.
	FromPID     int    `json:"from_pid,omitempty"`
	ToPID       int    `json:"to_pid,omitempty"`
	FromVersion string `json:"from_version,omitempty"`
	ToVersion   string `json:"to_version,omitempty"`
	// Restarts is the number of relaunches by drover at the end.
	Restarts int      `json:"restarts,omitempty"`
	Unknown  *Unknown `json:"unknown,omitempty"`
}

// NamespaceRevision is a revision with its namespace.
type NamespaceRevision struct {
	Namespace string `json:"namespace"`
	Revision
}

// HostChange is a change of a host.
type HostChange struct {
	Host Host      `json:"host"`
	At   time.Time `json:"at"`
	// Kind is one of the constants below. Text has the details for people.
	Kind string `json:"kind"`
	Text string `json:"text,omitempty"`
}

// The kinds of a HostChange.
const (
	HostJoined    = "joined"
	HostRemoved   = "removed"
	HostRenamed   = "renamed" // it has joined again under another address or id, or a person has given it another id
	HostWentAway  = "away"
	HostCameBack  = "back"
	HostRestarted = "agent-restarted"
	HostUpgraded  = "agent-changed" // another version of the agent runs
)
