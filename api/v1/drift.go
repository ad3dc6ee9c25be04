package v1

import "time"

// DriftReport is how processes differ from their files.
type DriftReport struct {
	// Items are in the order of namespace, name and host, up to the limit of the filter. Total counts all.
	Items []Difference `json:"items"`
	Total int          `json:"total"`
	// Processes is the number of processes that were compared, each on its host.
	Processes int `json:"processes"`
	// Unasked are hosts whose running processes nobody has compared.
	Unasked []UnaskedHost `json:"unasked"`
}

// Difference is one difference of a process on a host.
type Difference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      string `json:"host"`
	// Kind is one of the constants below, and Field the field of the file; empty if the whole process differs.
	Kind  string `json:"kind"`
	Field string `json:"field,omitempty"`
	// Want is what the file says, Have what is there. Values of environment variables are ***.
	Want any `json:"want,omitempty"`
	Have any `json:"have,omitempty"`
	// App, User, Through and At tell who made the difference; empty if nobody did, or if that is not known.
	App     string     `json:"app,omitempty"`
	User    string     `json:"user,omitempty"`
	Through string     `json:"through,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	// Text says the same in one sentence.
	Text string `json:"text"`
	// Mend is the command that removes the difference; empty if no command does.
	Mend string `json:"mend,omitempty"`
}

// The kinds of a Difference: the host has not got the latest spec; somebody has changed the spec other than by a file;
// somebody has stopped, unwatched or removed the process; the running process differs from its spec; a configuration
// file has another checksum.
const (
	DriftMissed  = "missed"
	DriftChanged = "changed"
	DriftPerson  = "person"
	DriftProcess = "process"
	DriftConfig  = "config"
)

// UnaskedHost is a host that did not answer.
type UnaskedHost struct {
	Host  string `json:"host"`
	Error string `json:"error"`
}
