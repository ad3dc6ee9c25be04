package process

// Shown is what a list shows of a process. Agents record it whenever it changes, so that a server can tell what it was
// at any moment.
type Shown struct {
	// State is one of States, since the given time in Unix milliseconds. Since is never before the start of the agent.
	State string `json:"state"`
	Since int64  `json:"since,omitempty"`
	// Cause is the main cause, with its text and its beginning in Unix milliseconds.
	Cause      CauseID `json:"cause,omitempty"`
	Text       string  `json:"text,omitempty"`
	CauseSince int64   `json:"cause_since,omitempty"`
	// PID is the main process, StartedAt its start in Unix seconds, and Version its answer; all are zero if none runs.
	PID       int    `json:"pid,omitempty"`
	StartedAt int64  `json:"started_at,omitempty"`
	Version   string `json:"version,omitempty"`
	Hosted    bool   `json:"hosted,omitempty"`
	Want      Want   `json:"want,omitempty"`
	Flapping  bool   `json:"flapping,omitempty"`
	Restarts  int    `json:"restarts,omitempty"`
	// Ran is the revision of the spec that the main process was started with; 0 if it is unknown.
	Ran int64 `json:"ran,omitempty"`
	// RegisteredAt is in Unix seconds.
	RegisteredAt int64 `json:"registered_at,omitempty"`
	// Gone tells that the process is no longer registered. The other fields are zero then, except Since.
	Gone bool `json:"gone,omitempty"`
}

// Shown returns what a list shows of the status of a registered process. Since is 0.
func (s *Status) Shown() Shown {
	shown := Shown{
		State: s.State, Cause: s.Cause.ID, Text: s.Cause.Text, CauseSince: s.Cause.Since, Hosted: s.Hosted,
		Want: s.Want, Flapping: s.Flapping, Restarts: s.Restarts, RegisteredAt: s.RegisteredAt,
	}
	if shown.State == "" { // nobody has looked for it yet
		shown.State = StateUnknown
	}
	if s.Running() {
		shown.PID, shown.StartedAt = s.Instance.PID, s.Instance.StartedAt
		shown.Version, shown.Ran = s.Instance.Version, s.Instance.Revision
	}
	return shown
}

// Same reports whether both show the same. It ignores Since, and the text of the cause, which may count seconds.
func (s Shown) Same(other Shown) bool {
	s.Since, other.Since, s.Text, other.Text = 0, 0, "", ""
	return s == other
}
