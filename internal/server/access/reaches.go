package access

import "drover/internal/process"

// Reaches remembers how far the rights of a principal reach, for a call that is about many targets. It is for one goroutine.
type Reaches struct {
	principal Principal
	known     map[Operation]map[string]Reach
}

// NewReaches returns the reaches of a principal.
func NewReaches(p Principal) *Reaches { return &Reaches{p, map[Operation]map[string]Reach{}} }

// On is Principal.On.
func (r *Reaches) On(op Operation, namespace string) Reach {
	if r.known[op] == nil {
		r.known[op] = map[string]Reach{}
	}
	reach, ok := r.known[op][namespace]
	if !ok {
		reach = r.principal.On(op, namespace)
		r.known[op][namespace] = reach
	}
	return reach
}

// MayRead reports whether the principal may read what came of an operation on a host: it may do the same again, or ask about the process.
// Rights may have been withdrawn since.
func (r *Reaches) MayRead(op process.Op, namespace string, h Host) bool {
	return r.On(OperationOf(op), namespace).Covers(h) || r.On(OperationOf(process.Query), namespace).Covers(h)
}
