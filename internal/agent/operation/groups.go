package operation

import (
	"drover/internal/agent/specstore"
	"drover/internal/process"
)

// setGroups makes the groups that were sent all that the namespace has. The process it is asked of has no name.
func (n *session) setGroups() (Result, error) {
	return Result{
		Outcome: process.Outcome{Text: process.Success},
		Change:  specstore.Change{Groups: &specstore.NamespaceGroups{Namespace: n.id.Namespace, Groups: n.groups}},
		Runtime: n.runtime,
	}, nil
}
