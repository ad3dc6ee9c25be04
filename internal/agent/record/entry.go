package record

import (
	"time"

	"drover/internal/process"
)

// Entry is an accepted operation. It is journalled before anything is done about it.
type Entry struct {
	Item    string        `json:"item"`
	Process process.ID    `json:"process"`
	Op      process.Op    `json:"op"`
	Spec    *process.Spec `json:"spec,omitempty"`
	// Groups is for process.SetGroups.
	Groups []process.Group `json:"groups,omitempty"`
	// Ordered tells that the operation comes from drover's own API: it waits for those on other processes, as the
	// specs say (process.Spec.After), and a start does not begin a second copy (process.Beside).
	Ordered bool `json:"ordered,omitempty"`
	// Removes tells that the operation is the first part of a removal: what starts later in the namespace waits for it.
	Removes bool `json:"removes,omitempty"`
	// Followers are the processes that a removal makes room for: those of its namespace that start after it. They are
	// not stored: after a death of the agent nobody looks whether they could start.
	Followers []Follower `json:"-"`
	// Beside is the wish of a start that uses the stored spec.
	Beside process.Beside `json:"beside,omitempty"`
	// BeginBy is when it may no longer begin: the time since boot, in the boot in which it was accepted. Expires is
	// the same by this host's wall clock, which may be stepped: it counts in a later boot only.
	BeginBy time.Duration `json:"begin_by"`
	Expires time.Time     `json:"expires"`
	// Actor is whose wish it is.
	Actor process.Actor `json:"actor,omitzero"`
	// Boot is the boot in which the operation was accepted: after a reboot nobody can tell how far the operation came.
	Boot string `json:"boot"`
	// Outcome is set when it is over, Ended, in Unix milliseconds, if it had begun; Acked when the server has the
	// outcome.
	Outcome *process.Outcome `json:"outcome,omitempty"`
	Ended   int64            `json:"ended,omitempty"`
	Acked   bool             `json:"acked,omitempty"`
}

// Follower is a process that starts after a removal, and its spec.
type Follower struct {
	Process process.ID
	Spec    *process.Spec
}

// Expired reports whether the operation may no longer begin, in the given boot and so long after it, or after a
// reboot at the time now.
func (e *Entry) Expired(boot string, sinceBoot time.Duration, now time.Time) bool {
	if e.Boot == boot {
		return sinceBoot > e.BeginBy
	}
	return now.After(e.Expires)
}

// Ends reports whether an operation only ends its process or leaves it to itself. It is taken on a full disk too.
func (e *Entry) Ends() bool {
	return e.Op.Info().Ends
}
