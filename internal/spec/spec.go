// Package spec holds the one form of the spec of a process: what people write in process files, what servers and agents
// store and send, and what /api/v1 shows. A field that a person leaves out stays nil or empty in every place; the
// methods of Spec say what such a field means. The package does no I/O, and imports nothing of drover.
package spec

// Spec says how drover runs a process, in the form of process files: drover explain describes each field. A nil or
// empty field has its default; the methods return the value that counts. A sent spec replaces the stored one: an empty
// field becomes empty.
type Spec struct {
	// Hosts are the hosts that have the process, and Copies the number of its copies. Only files have them.
	Hosts Hosts `json:"hosts,omitzero"`

	Run              string    `json:"run,omitempty"`
	Start            string    `json:"start,omitempty"`
	PIDFile          string    `json:"pid_file,omitempty"`
	ProcessName      string    `json:"process_name,omitempty"`
	Directory        string    `json:"directory,omitempty"`
	Preflight        *Before   `json:"preflight,omitempty"`
	BeforeStart      *Before   `json:"before_start,omitempty"`
	User             string    `json:"user,omitempty"`
	Group            string    `json:"group,omitempty"`
	Groups           []string  `json:"groups,omitzero"`
	Environment      Variables `json:"environment,omitempty"`
	EnvironmentFiles []string  `json:"environment_files,omitempty"`

	Umask            string   `json:"umask,omitempty"`
	Nice             *int     `json:"nice,omitempty"`
	OOMScoreAdjust   *int     `json:"oom_score_adjust,omitempty"`
	NoNewPrivileges  bool     `json:"no_new_privileges,omitempty"`
	Capabilities     []string `json:"capabilities,omitzero"`
	RuntimeDirectory string   `json:"runtime_directory,omitempty"`

	Limits     *Limits     `json:"limits,omitempty"`
	Thresholds *Thresholds `json:"thresholds,omitempty"`
	Copies     *int        `json:"copies,omitempty"`

	Once      bool      `json:"once,omitempty"`
	OnDemand  bool      `json:"on_demand,omitempty"`
	Schedule  *Schedule `json:"schedule,omitempty"`
	TimeLimit *Duration `json:"time_limit,omitempty"`

	Ready   *Ready            `json:"ready,omitempty"`
	After   map[string]string `json:"after,omitempty"`
	Restart *Restart          `json:"restart,omitempty"`
	Health  *Health           `json:"health,omitempty"`

	VersionCommand string `json:"version_command,omitempty"`

	Stop        string       `json:"stop,omitempty"`
	StopSignals []StopSignal `json:"stop_signals,omitzero"`
	StopScope   StopScope    `json:"stop_scope,omitempty"`
	BeforeStop  *BeforeStop  `json:"before_stop,omitempty"`
	Reload      *Reload      `json:"reload,omitempty"`
	Timeouts    *Timeouts    `json:"timeouts,omitempty"`

	Log         *Log         `json:"log,omitempty"`
	LogFile     string       `json:"log_file,omitempty"`
	ConfigFiles []ConfigFile `json:"config_files,omitempty"`

	Labels            map[string]string `json:"labels,omitempty"`
	AlarmID           int64             `json:"alarm_id,omitempty"`
	ExpectedInstances *int              `json:"expected_instances,omitempty"`
	Leave             Leave             `json:"leave,omitempty"`
	Drift             Drifting          `json:"drift,omitempty"`
	// Rollout says how an apply of the process spreads over its hosts; nil means all hosts at once.
	Rollout *RolloutPlan `json:"rollout,omitempty"`
	Compat  *Compat      `json:"compat,omitempty"`

	// Revision is the revision of the namespace that brought the spec; 0 if it is unknown. Servers number revisions. It
	// is not a part of what the spec says: see Same.
	Revision int64 `json:"revision,omitempty" file:"-"`
	// Beside is for one order, and is not stored.
	Beside Beside `json:"beside,omitempty" file:"-"`
}

// Variables are environment variables by name. A file may give a value as a number or as true or false: the text counts
// as it is written.
type Variables map[string]string

// Before is a command that must succeed before a start, or before a restart ends a process.
type Before struct {
	Run     string    `json:"run"`
	Timeout *Duration `json:"timeout,omitempty"`
}

// BeforeStop is a command that takes a process out of use before a stop, and the pause after the command.
type BeforeStop struct {
	Run  string    `json:"run"`
	Wait *Duration `json:"wait,omitempty"`
}

// Limits are enforced by the kernel: the first three by a control group, the others by setrlimit(2).
type Limits struct {
	Memory       Size        `json:"memory,omitempty"`
	CPU          Percent     `json:"cpu,omitempty"`
	Tasks        int64       `json:"tasks,omitempty"`
	OpenFiles    LimitNumber `json:"open_files,omitempty"`
	CoreSize     *LimitSize  `json:"core_size,omitempty"`
	LockedMemory *LimitSize  `json:"locked_memory,omitempty"`
	StackSize    LimitSize   `json:"stack_size,omitempty"`
	Processes    LimitNumber `json:"processes,omitempty"`
	FileSize     *LimitSize  `json:"file_size,omitempty"`
	// Strict fails a start on a host that cannot give these limits, nice or oom_score_adjust exactly.
	Strict bool `json:"strict,omitempty"`
}

// Thresholds are judged by drover, in percent of the whole machine.
type Thresholds struct {
	Memory Percent `json:"memory,omitempty"`
	CPU    Percent `json:"cpu,omitempty"`
}

// Schedule says when a periodic process runs: Cron or Every.
type Schedule struct {
	Cron     string    `json:"cron,omitempty"`
	Every    *Duration `json:"every,omitempty"`
	TimeZone string    `json:"time_zone,omitempty"`
	Overlap  Overlap   `json:"overlap,omitempty"`
	Missed   Missed    `json:"missed,omitempty"`
	Jitter   *Duration `json:"jitter,omitempty"`
}

// Ready decides when a start has succeeded. Exactly one field before Within is set.
type Ready struct {
	Notify    bool      `json:"notify,omitempty"`
	NotifyFD  *int      `json:"notify_fd,omitempty"`
	HTTP      string    `json:"http,omitempty"`
	Insecure  bool      `json:"insecure,omitempty"`
	TCP       string    `json:"tcp,omitempty"`
	Log       string    `json:"log,omitempty"`
	Exec      string    `json:"exec,omitempty"`
	Alive     *Duration `json:"alive,omitempty"`
	Within    *Duration `json:"within,omitempty"`
	OnTimeout string    `json:"on_timeout,omitempty"`
}

// Restart is the policy of relaunches.
type Restart struct {
	When         When      `json:"when,omitempty"`
	Delay        *Duration `json:"delay,omitempty"`
	MaxDelay     *Duration `json:"max_delay,omitempty"`
	Factor       *float64  `json:"factor,omitempty"`
	Jitter       *Percent  `json:"jitter,omitempty"`
	ResetAfter   *Duration `json:"reset_after,omitempty"`
	GiveUpAfter  *Count    `json:"give_up_after,omitempty"`
	SuccessCodes []Status  `json:"success_codes,omitzero"`
	NeverOn      []Status  `json:"never_on,omitzero"`
}

// Health is the check of a running process. Exactly one of Exec, HTTP, TCP and Watchdog is set.
type Health struct {
	Exec     string    `json:"exec,omitempty"`
	HTTP     string    `json:"http,omitempty"`
	Insecure bool      `json:"insecure,omitempty"`
	TCP      string    `json:"tcp,omitempty"`
	Watchdog bool      `json:"watchdog,omitempty"`
	Every    *Duration `json:"every,omitempty"`
	Timeout  *Duration `json:"timeout,omitempty"`
	Failures *int      `json:"failures,omitempty"`
	Grace    *Duration `json:"grace,omitempty"`
	Action   string    `json:"action,omitempty"`
}

// Timeouts bound the commands of a process.
type Timeouts struct {
	Start   *Duration `json:"start,omitempty"`
	Stop    *Duration `json:"stop,omitempty"`
	Reload  *Duration `json:"reload,omitempty"`
	Version *Duration `json:"version,omitempty"`
}

// Log bounds what drover keeps of the output of a process.
type Log struct {
	MaxSize  *Size     `json:"max_size,omitempty"`
	Keep     *int      `json:"keep,omitempty"`
	MaxAge   *Duration `json:"max_age,omitempty"`
	Compress *bool     `json:"compress,omitempty"`
	// Pipe gives the process pipes to write to.
	Pipe bool `json:"pipe,omitempty"`
}

// ConfigFile is a file whose checksum drover compares.
type ConfigFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	MD5    string `json:"md5,omitempty"`
}
