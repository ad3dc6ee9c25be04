package v1

import "time"

// Silence is a time in which alarms are withheld.
type Silence struct {
	ID string `json:"id"`
	// State is SilencePending, SilenceActive or SilenceEnded.
	State string `json:"state"`
	// Processes are patterns NAMESPACE/NAME, Hosts are ids, CLOUD:IP or patterns of either, Select is an expression
	// about hosts, Labels one about the labels of processes. An alarm must match all of them; empty means all.
	Processes []string `json:"processes"`
	Hosts     []string `json:"hosts,omitempty"`
	Select    string   `json:"select,omitempty"`
	Labels    string   `json:"labels,omitempty"`
	// From is the beginning, and Until the end; zero means that the silence repeats without an end.
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
	// Cron and TimeZone are the timetable of windows of so many Seconds, between From and Until. WindowFrom and
	// WindowUntil are the present window or the next one. They are for a silence that repeats.
	Cron        string     `json:"cron,omitempty"`
	TimeZone    string     `json:"time_zone,omitempty"`
	Seconds     float64    `json:"seconds,omitempty"`
	WindowFrom  *time.Time `json:"window_from,omitempty"`
	WindowUntil *time.Time `json:"window_until,omitempty"`
	Message     string     `json:"message,omitempty"`
	App         string     `json:"app,omitempty"`
	User        string     `json:"user,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	// RemovedAt is set if a person ended the silence early.
	RemovedAt *time.Time `json:"removed_at,omitempty"`
	// Withheld counts the alarms that were not delivered; each receiver counts.
	Withheld int64 `json:"withheld"`
}

// The states of a silence.
const (
	SilencePending = "pending"
	SilenceActive  = "active"
	SilenceEnded   = "ended"
)

// SilenceRequest asks for a silence.
type SilenceRequest struct {
	Processes []string `json:"processes,omitempty"`
	Hosts     []string `json:"hosts,omitempty"`
	Select    string   `json:"select,omitempty"`
	Labels    string   `json:"labels,omitempty"`
	// Cron is a crontab rule, and TimeZone the zone of its times; empty means the zone of the server. With Cron,
	// alarms are withheld for Seconds from each of these times on, between From and Until.
	Cron     string `json:"cron,omitempty"`
	TimeZone string `json:"time_zone,omitempty"`
	// From is now by default. Either Until or Seconds is required; with Cron Seconds is, and Until may stand beside it.
	From    *time.Time `json:"from,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Seconds float64    `json:"seconds,omitempty"`
	Message string     `json:"message,omitempty"`
}

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
