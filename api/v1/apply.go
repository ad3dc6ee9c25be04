package v1

// Plan is what an apply of a process file does, or has begun to do.
type Plan struct {
	Namespace string   `json:"namespace"`
	Changes   []Change `json:"changes"`
	// Operation carries out the plan if no process of the file has a rollout. Otherwise Rollouts carry it out, one for
	// each distinct rollout plan. Both are empty if there is nothing to do. The answer to a dry run has no Operation,
	// and its Rollouts have no id.
	Operation *Task     `json:"operation,omitempty"`
	Rollouts  []Rollout `json:"rollouts,omitempty"`
	// Away are the hosts that are not connected now and have a change. Only the answer to a dry run has them.
	Away []string `json:"away,omitempty"`
	// Reason says why the server would refuse the plan without its dry run, or hold its rollouts: the caller lacks a
	// right, the plan reaches more hosts than one person may change at once, or a rollout over one of its processes is
	// active.
	Reason string `json:"reason,omitempty"`
	// Refused is the status of that refusal, such as 409; 0 if the server would not refuse the plan.
	Refused int `json:"refused,omitempty"`
}

// Change is what happens to one process on some hosts.
type Change struct {
	Process string `json:"process"`
	// Copies are the numbers of the copies of Process that change. Without copies the process itself changes.
	Copies []int `json:"copies,omitempty"`
	// Action is one of the constants below, such as ActionCreate.
	Action string `json:"action"`
	// Op is the operation that carries out the change, such as OpStart; empty if drover does nothing.
	Op     string   `json:"op,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Hosts  []string `json:"hosts"`
	// Files tells that nothing changes on the hosts, because they already are as the file says by another way than a
	// file. From the apply on the file counts: drover reports a later change by another way as a difference.
	Files bool `json:"files,omitempty"`
	// Fields are the changed fields of a process that the hosts have already.
	Fields []FieldChange `json:"fields,omitempty"`
}

// The actions of a Change. ActionKept is for a process that differs from the file and that drover leaves as it is.
const (
	ActionCreate = "create"
	ActionChange = "change"
	ActionRemove = "remove"
	ActionNone   = "none"
	ActionKept   = "kept"
)

// FieldChange is a changed field. Class is "live" if the change takes effect at once, and "restart" if the change takes
// effect at the next start. From and To are nil for the default.
type FieldChange struct {
	Path  string `json:"path"`
	Class string `json:"class"`
	From  any    `json:"from"`
	To    any    `json:"to"`
}
