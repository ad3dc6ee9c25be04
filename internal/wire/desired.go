package wire

import (
	"encoding/json"

	"drover/internal/process"
)

// Disk describes the disk of an agent that introduces itself. The agent's revision never goes back unless its disk
// does. So the server recognises an old copy of a disk, or a new disk.
type Disk struct {
	// Revision belongs to the latest change of any record. Records are all records at that revision.
	Revision uint64  `json:"revision"`
	Records  Records `json:"records,omitempty"`
}

// Records maps each process that the agent has a record of to its revision. In JSON it is {"NAMESPACE": {"NAME":
// REVISION}}, because an introduction with many processes has to fit into one report.
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

// Desired answers the introduction of an agent whose disk is older than the records that it has confirmed to the
// server.
type Desired struct {
	// Revision is the lower bound of the agent's own revision from now on.
	Revision  uint64    `json:"revision"`
	Processes []Desires `json:"processes,omitempty"`
	// More asks the agent to introduce itself again after it has applied this.
	More bool `json:"more,omitempty"`
}

// Desires is the last confirmed record of one process, with its revision. It applies if the agent has an older
// record. It also applies if the agent has no record and its disk is older than this revision.
type Desires struct {
	Process  process.ID `json:"process"`
	Revision uint64     `json:"revision"`
	// Gone means that the process was removed; then no other field is set.
	Gone bool `json:"gone,omitempty"`
	// Spec is set unless the process is gone.
	Spec         *process.Spec `json:"spec,omitempty"`
	Hosted       bool          `json:"hosted,omitempty"`
	Want         process.Want  `json:"want,omitempty"`
	RegisteredAt int64         `json:"registered_at,omitempty"` // Unix seconds
}
