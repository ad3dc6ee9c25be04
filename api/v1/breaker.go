package v1

import "time"

// Breaker withholds the relaunches of a process on all hosts, because too many hosts failed from one cause.
type Breaker struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Revision is the revision of the spec whose relaunches it withholds; 0 if it is unknown.
	Revision int64 `json:"revision,omitempty"`
	// Cause is the id of the common cause, from which Failed of Hosts failed.
	Cause  string `json:"cause"`
	Failed int    `json:"failed"`
	Hosts  int    `json:"hosts"`
	// UntilAt is when it closes by itself.
	OpenedAt time.Time `json:"opened_at"`
	UntilAt  time.Time `json:"until_at"`
	// ClosedAt is set once it is closed; ClosedBy is the person who reset it.
	ClosedAt *time.Time `json:"closed_at,omitempty"`
	ClosedBy string     `json:"closed_by,omitempty"`
}
