package client

// Schedule is how a periodic process is run; when is in Policy.Crontab or Policy.CycleTime.
type Schedule struct {
	// Overlap is "skip" (the default), "wait" or "replace": what happens with a run that is due while the one before it
	// lasts.
	Overlap string `json:"overlap,omitempty"`
	// Missed is "skip" (the default) or "run-once": what happens with runs that were due while the host was away.
	Missed string `json:"missed,omitempty"`
	// Jitter delays each run by up to so many seconds, at random.
	Jitter int `json:"jitter,omitempty"`
	// TimeZone is a name of the IANA database; empty is the zone of the host.
	TimeZone string `json:"time_zone,omitempty"`
}

// HardLimits are enforced by the kernel; 0 is none. Memory is in bytes, CPU in percent of one processor, Tasks counts
// processes and threads.
type HardLimits struct {
	Memory int64 `json:"memory,omitempty"`
	CPU    int   `json:"cpu,omitempty"`
	Tasks  int64 `json:"tasks,omitempty"`
}

// Readiness is how a start is known to have succeeded, within the start check time; exactly one of its fields is set.
type Readiness struct {
	// TCP is an address, "host:port", that accepts a connection; HTTP a URL that answers a GET with a status from 200
	// to 399.
	TCP  string `json:"tcp,omitempty"`
	HTTP string `json:"http,omitempty"`
	// Exec is a command line that ends with status 0; Log a regular expression (RE2) for a line of what the start
	// command writes, or of the log file.
	Exec string `json:"exec,omitempty"`
	Log  string `json:"log,omitempty"`
}

// Probes say how often a running process is asked for its health and version. Times are seconds; 0 is the default.
type Probes struct {
	HealthInterval  int `json:"health_interval,omitempty"`  // 60
	HealthTimeout   int `json:"health_timeout,omitempty"`   // 5
	VersionInterval int `json:"version_interval,omitempty"` // 600
	// Grace is how long after a start the health is not judged.
	Grace int `json:"grace,omitempty"`
	// Failures in a row make the process unhealthy (3). With Restart it is ended and launched again then.
	Failures int  `json:"failures,omitempty"`
	Restart  bool `json:"restart,omitempty"`
}
