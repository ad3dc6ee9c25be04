package access

import "drover/internal/process"

// Reaches caches the reaches of a principal, for a call with many targets. Only one goroutine may use it.
type Reaches struct {
	principal Principal
	known     map[Operation]map[string]Reach
	sets      map[string]Reach
}

// NewReaches returns the reaches of a principal.
func NewReaches(p Principal) *Reaches {
	return &Reaches{p, map[Operation]map[string]Reach{}, map[string]Reach{}}
}

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

// Sets is Principal.Sets.
func (r *Reaches) Sets(namespace string) Reach {
	reach, ok := r.sets[namespace]
	if !ok {
		reach = r.principal.Sets(namespace)
		r.sets[namespace] = reach
	}
	return reach
}

// MayRead reports whether the principal may read the result of an operation on a host: it may do the operation, or
// query the process. The rights may have changed since the operation.
func (r *Reaches) MayRead(op process.Op, namespace string, h Host) bool {
	return r.On(OperationOf(op), namespace).Covers(h) || r.On(OperationOf(process.Query), namespace).Covers(h)
}
