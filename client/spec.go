package client

// Schedule says how drover runs a periodic process; Policy.Crontab or Policy.CycleTime say when.
type Schedule struct {
	// Overlap is "skip" (the default), "wait" or "replace": the action if a run is due while the previous run lasts.
	Overlap string `json:"overlap,omitempty"`
	// Missed is "skip" (the default) or "run-once": the action for runs that were due while the host was away.
	Missed string `json:"missed,omitempty"`
	// Jitter delays each run by a random time of up to this many seconds.
	Jitter int `json:"jitter,omitempty"`
	// TimeZone is a name of the IANA database; empty means the zone of the host.
	TimeZone string `json:"time_zone,omitempty"`
}

// HardLimits are limits that the kernel enforces; 0 means no limit. Memory is in bytes, CPU in percent of one
// processor, and Tasks counts processes and threads.
type HardLimits struct {
	Memory int64 `json:"memory,omitempty"`
	CPU    int   `json:"cpu,omitempty"`
	Tasks  int64 `json:"tasks,omitempty"`
}

// Readiness decides when a start has succeeded, within the start check time; exactly one of its fields is set.
type Readiness struct {
	// TCP is an address, "host:port", that accepts a connection. HTTP is a URL that answers a GET with a status from
	// 200 to 399.
	TCP  string `json:"tcp,omitempty"`
	HTTP string `json:"http,omitempty"`
	// Exec is a command line that exits with status 0. Log is a regular expression (RE2) for a line of the output of
	// the start command, or of the log file.
	Exec string `json:"exec,omitempty"`
	Log  string `json:"log,omitempty"`
}

// Probes say how often drover runs the health and version commands. Times are seconds; 0 means the default.
type Probes struct {
	HealthInterval  int `json:"health_interval,omitempty"`  // 60
	HealthTimeout   int `json:"health_timeout,omitempty"`   // 5
	VersionInterval int `json:"version_interval,omitempty"` // 600
	// Grace is the time after a start during which drover ignores failed health checks.
	Grace int `json:"grace,omitempty"`
	// Failures is the number of consecutive failures that make the process unhealthy (3). With Restart drover then ends
	// and relaunches it.
	Failures int  `json:"failures,omitempty"`
	Restart  bool `json:"restart,omitempty"`
}
