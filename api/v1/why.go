package v1

import "time"

// Why explains the states of processes.
type Why struct {
	// Findings are the worst findings, up to the limit of the filter.
	Findings []Finding `json:"findings"`
	// Causes counts the first causes of all findings, the worst and most frequent first.
	Causes []CauseCount `json:"causes"`
	// Wrong counts the processes that are not as they should be because of a requested cause; Total counts all examined
	// processes.
	Wrong int `json:"wrong"`
	Total int `json:"total"`
}

// Finding explains the state of one process on one host.
type Finding struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      Host   `json:"host"`
	// State is empty if the host has never reported the process.
	State string `json:"state,omitempty"`
	// Wrong tells that the process is not as it should be. Severity is critical, warning or notice.
	Wrong    bool   `json:"wrong"`
	Severity string `json:"severity"`
	Cause    Cause  `json:"cause"`
	// Further are the other causes, the worst first.
	Further []Cause `json:"further,omitempty"`
	// Then is the cause in the host's last report, if the host is away.
	Then *Cause `json:"then,omitempty"`
	// Impact is one clause that says what the state means for the process.
	Impact string `json:"impact"`
}

// CauseCount is the frequency of a cause, with its catalogue entry. Page is a path relative to the root of drover's
// repository.
type CauseCount struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Severity string `json:"severity"`
	Count    int    `json:"count"`
	Meaning  string `json:"meaning"`
	Remedy   string `json:"remedy"`
	Page     string `json:"page"`
}

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

// The kinds of a Difference: the host has not got the spec of the file in force; somebody has changed the spec since;
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
