package processes

import (
	"drover/internal/process"
	"drover/internal/server/api/call"
)

// MaxTargets is the largest number of processes that a request may name.
const MaxTargets = 10_000

// TargetRequest is v1.Target with lists whose decoding stops at their limits.
type TargetRequest struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Hosts     call.List[string] `json:"hosts"`
}

// ID returns the id of the process.
func (t *TargetRequest) ID() process.ID { return process.ID{Namespace: t.Namespace, Name: t.Name} }
