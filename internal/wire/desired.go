package wire

import (
	"encoding/json"

	"drover/internal/process"
)

// Disk is what an agent that introduces itself has on its disk. Revisions are those of the agent, which never falls back behind one
// unless its disk does: so the server sees that a disk is an old copy, or a new one.
type Disk struct {
	// Revision is that of the latest change of any record. Records were all there when it was.
	Revision uint64  `json:"revision"`
	Records  Records `json:"records,omitempty"`
}

// Records are the processes that an agent has a record of, and the revision of each. In JSON it is {"NAMESPACE": {"NAME": REVISION}}: an
// introduction with many has to fit into one report.
type Records map[process.ID]uint64

// MarshalJSON implements json.Marshaler.
func (r Records) MarshalJSON() ([]byte, error) {
	tree := make(map[string]map[string]uint64)
	for id, revision := range r {
		if tree[id.Namespace] == nil {
			tree[id.Namespace] = make(map[string]uint64)
		}
		tree[id.Namespace][id.Name] = revision
	}
	return json.Marshal(tree)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Records) UnmarshalJSON(data []byte) error {
	var tree map[string]map[string]uint64
	if err := json.Unmarshal(data, &tree); err != nil {
		return err
	}
	all := Records{}
	for namespace, names := range tree {
		for name, revision := range names {
			all[process.ID{Namespace: namespace, Name: name}] = revision
		}
	}
	*r = all
	return nil
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
