package wire

import "drover/internal/process"

// Disk is what an agent that introduces itself has on its disk. Revisions are those of the agent, which never falls back behind one
// unless its disk does: so the server sees that a disk is an old copy, or a new one.
type Disk struct {
	// Revision is that of the latest change of any record. Records were all there when it was.
	Revision uint64 `json:"revision"`
	Records  []Held `json:"records,omitempty"`
}

// Held is one process that an agent has a record of.
type Held struct {
	Process  process.ID `json:"process"`
	Revision uint64     `json:"revision"`
}

// Desired answers the introduction of an agent whose disk is older than what the server has had confirmed by it.
type Desired struct {
	// Revision is what the agent's own must not fall behind from now on.
	Revision  uint64    `json:"revision"`
	Processes []Desires `json:"processes,omitempty"`
	// More asks the agent to introduce itself again once it has taken this.
	More bool `json:"more,omitempty"`
}

// Desires is what the agent had confirmed last of one process, with that revision. It counts if the agent has an older record, or
// none although its disk is older than this revision.
type Desires struct {
	Process  process.ID `json:"process"`
	Revision uint64     `json:"revision"`
	// Gone says that the process was removed; nothing else is set then.
	Gone bool `json:"gone,omitempty"`
	// Spec is set where the process is not gone.
	Spec         *process.Spec `json:"spec,omitempty"`
	Hosted       bool          `json:"hosted,omitempty"`
	Want         process.Want  `json:"want,omitempty"`
	RegisteredAt int64         `json:"registered_at,omitempty"` // Unix seconds
}
