package v1

import "time"

// Event is a change of a process, or of its host.
type Event struct {
	// Cursor is the place of the event in the order in which events arrive at the server.
	Cursor int64 `json:"cursor"`
	// At is the time of the event by the clock of the host.
	At         time.Time `json:"at"`
	ReceivedAt time.Time `json:"received_at"`
	Host       Host      `json:"host"`
	// Namespace and Name are empty if the event is about the host.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Kind is a word such as "exited"; From and To are states, as in Process.
	Kind  string `json:"kind"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Cause *Cause `json:"cause,omitempty"`
	Actor Actor  `json:"actor,omitzero"`

	EventDetail
}

// EventDetail holds the fields that only some events have.
type EventDetail struct {
	PID  int   `json:"pid,omitempty"`
	Exit *Exit `json:"exit,omitempty"`
	// RunSeconds is the run time of the instance, or of the command; 0 if nobody saw its end.
	RunSeconds float64 `json:"run_seconds,omitempty"`
	// Output is the end of what the command wrote.
	Output string `json:"output,omitempty"`
	// Attempt counts the relaunches since the retries were last full; in "events-lost" it is the number of lost events.
	Attempt int     `json:"attempt,omitempty"`
	Breach  *Breach `json:"breach,omitempty"`
	// Revision is the revision of the spec; for an end, the revision that the instance ran with. Fields are the paths
	// of the fields that changed in the spec.
	Revision int64    `json:"revision,omitempty"`
	Fields   []string `json:"fields,omitempty"`
}

// Cause explains a state or an event. ID is stable; Text is for people.
type Cause struct {
	ID       string     `json:"id,omitempty"`
	Text     string     `json:"text,omitempty"`
	Evidence []string   `json:"evidence,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
}

// Actor is the origin of an event: caller (with App, User and Operation), policy, kernel, self or outside.
type Actor struct {
	Kind      string `json:"kind,omitempty"`
	App       string `json:"app,omitempty"`
	User      string `json:"user,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Reason is the Reason of the task (Task.Reason).
	Reason string `json:"reason,omitempty"`
}

// Exit tells how a process or a command ended. Known is false if the kernel did not give the exit status.
type Exit struct {
	Known  bool       `json:"known"`
	Code   int        `json:"code"`
	Signal int        `json:"signal,omitempty"`
	Core   bool       `json:"core,omitempty"`
	OOM    bool       `json:"oom,omitempty"`
	Peak   int64      `json:"peak_memory,omitempty"` // bytes; 0 if it is not known
	At     *time.Time `json:"at,omitempty"`
}

// Breach is the proof of an exceeded limit, in percent of the whole machine.
type Breach struct {
	Resource string    `json:"resource"`
	Limit    float64   `json:"limit"`
	Samples  []float64 `json:"samples"`
	// Group is the process group whose limit was exceeded; Scores rank its processes, highest first.
	Group  string  `json:"group,omitempty"`
	Scores []Score `json:"scores,omitempty"`
}

// Score is the rank of one process of a group when drover chose a victim.
type Score struct {
	Process ProcessID `json:"process"`
	Usage   float64   `json:"usage"`
	Limit   float64   `json:"limit,omitempty"`
	Score   float64   `json:"score"`
}

// ProcessID names a process.
type ProcessID struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns "namespace/name", for people and logs.
func (id ProcessID) String() string { return id.Namespace + "/" + id.Name }
