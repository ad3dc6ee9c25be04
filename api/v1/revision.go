package v1

import "time"

// Revision is a change of the specs of a namespace, as a caller asked for it and the server accepted it. A host that
// was away then does not have it.
type Revision struct {
	// Number counts the revisions of the namespace, from 1.
	Number int64     `json:"number"`
	At     time.Time `json:"at"`
	// App and User are the caller.
	App  string `json:"app,omitempty"`
	User string `json:"user,omitempty"`
	// Through is the way of the change, one of the constants below. Message is the caller's own text.
	Through string `json:"through"`
	Message string `json:"message,omitempty"`
	// Operation is the id of the operation that carried the revision out. The server forgets old operations.
	Operation string           `json:"operation"`
	Changes   []RevisionChange `json:"changes"`
}

// The ways of a Revision: an apply of a process file, an edit of a process, an operation that brought a spec or removed
// one, a call of the GSE API, and a call of the JOB API. An undo of an apply brings back what hosts had before.
const (
	ThroughApply     = "apply"
	ThroughEdit      = "edit"
	ThroughUndo      = "undo"
	ThroughOperation = "operation"
	ThroughGSE       = "gse"
	ThroughJOB       = "job"
	// ThroughSelection is a change by a server, because hosts came to match or ceased to match a selection.
	ThroughSelection = "selection"
)

// RevisionChange is the same change of one process on some hosts.
type RevisionChange struct {
	Process string `json:"process"`
	// Action is ActionCreate, ActionChange or ActionRemove. Hosts is the number of hosts.
	Action string `json:"action"`
	Hosts  int    `json:"hosts"`
	// Fields are the changed fields of a changed process.
	Fields []RevisedField `json:"fields,omitempty"`
}

// RevisedField is a changed field without its values. Class is as in FieldChange.
type RevisedField struct {
	Path  string `json:"path"`
	Class string `json:"class"`
}
