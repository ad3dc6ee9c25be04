// Package process holds the nouns that server and agent share: the name of a process, its spec, the operations on it
// and their outcomes. Of drover it imports only the parser of crontab rules, and it does no I/O.
package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// ID names a process within one agent. Both parts are the caller's own words. drover never alters or trims them, and
// never uses them as a path, a subject or a cgroup name: Hash is for that.
type ID struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns "namespace/name", for people and logs.
func (id ID) String() string { return id.Namespace + "/" + id.Name }

// Hash returns 32 lower-case hexadecimal digits that represent the id in places that allow only safe characters.
func (id ID) Hash() string {
	h := sha256.New()
	h.Write([]byte(id.Namespace))
	h.Write([]byte{0})
	h.Write([]byte(id.Name))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Kind says how long a process is meant to run (GSE auto_type).
type Kind string

// The kinds: run by a timer, kept running, or run once.
const (
	Periodic  Kind = "periodic"
	Resident  Kind = "resident"
	SingleRun Kind = "single-run"
)

// Spec describes how to run a process. A sent spec replaces the stored spec completely: an empty command stays empty.
type Spec struct {
	Identity Identity `json:"identity"`
	Commands Commands `json:"commands"`
	Limits   Limits   `json:"limits,omitzero"`
	Policy   Policy   `json:"policy"`
	// Only drover's own API can set Schedule, Hard, Ready and Probes.
	Schedule Schedule     `json:"schedule,omitzero"`
	Hard     HardLimits   `json:"hard_limits,omitzero"`
	Ready    *Readiness   `json:"ready,omitempty"`
	Probes   Probes       `json:"probes,omitzero"`
	ReportID int64        `json:"report_id,omitempty"`
	Config   []ConfigFile `json:"config,omitempty"`
	// Labels is the caller's own JSON, unchanged; empty if there was none.
	Labels json.RawMessage `json:"labels,omitempty"`
	// FuncID, InstanceID and Contact belong to JOB; drover stores and echoes them.
	FuncID     string `json:"func_id,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	Contact    string `json:"contact,omitempty"`
}

// Identity says where a process lives and how to recognise it.
type Identity struct {
	// ProcName is the base name of the executable.
	ProcName string `json:"proc_name"`
	// SetupPath is the absolute working directory of every command.
	SetupPath string `json:"setup_path"`
	// PIDPath is the absolute path of the pid file, or of a directory that holds it; empty if the process has no pid
	// file.
	PIDPath    string `json:"pid_path"`
	ConfigPath string `json:"config_path,omitempty"`
	LogPath    string `json:"log_path,omitempty"`
	// User is the account of the commands.
	User string `json:"user"`
}

// Commands are shell command lines, run by /bin/sh -c. Each may be empty.
type Commands struct {
	Start   string `json:"start,omitempty"`
	Stop    string `json:"stop,omitempty"`
	Restart string `json:"restart,omitempty"`
	Reload  string `json:"reload,omitempty"`
	Kill    string `json:"kill,omitempty"`
	Version string `json:"version,omitempty"`
	Health  string `json:"health,omitempty"`
}

// Asks reports whether the spec has a version or a health command.
func (c *Commands) Asks() bool { return c.Version != "" || c.Health != "" }

// Limits are upper bounds as percent of the whole machine (CPU, Mem) or counts; zero or less means none.
type Limits struct {
	CPU  float64 `json:"cpu,omitempty"`
	Mem  float64 `json:"mem,omitempty"`
	FD   int64   `json:"fd,omitempty"`
	Disk int64   `json:"disk,omitempty"`
	Net  int64   `json:"net,omitempty"`
}

// Policy says how to watch a process and how long its operations may take. All times are whole seconds. Defaulted has
// set the defaults.
type Policy struct {
	Kind Kind `json:"kind"`
	// KindAssumed tells that the caller gave no kind, and gets the assumed kind in the answer.
	KindAssumed bool `json:"kind_assumed,omitempty"`
	// StartCheckBegin is the time from a start command to the check of the process. If StartCheckEnd is greater, the
	// process may appear until then: drover checks from begin to end. Once it appeared, it must not exit, and it must
	// be alive at the end.
	StartCheckBegin int `json:"start_check_begin"`
	StartCheckEnd   int `json:"start_check_end,omitempty"`
	// StopCheck is the time in which a process must exit after its stop command has ended.
	StopCheck int `json:"stop_check"`
	// StartRetries is the number of relaunches in a row; StartInterval is the time between them.
	StartRetries  int `json:"start_retries"`
	StartInterval int `json:"start_interval"`
	// OpTimeout bounds one command.
	OpTimeout int `json:"op_timeout"`
	// Crontab and CycleTime are the timetable of a periodic process.
	Crontab   string `json:"crontab,omitempty"`
	CycleTime int    `json:"cycle_time,omitempty"`
	// Instances is the expected number of matching processes. A smaller number shows in the message and changes
	// nothing else.
	Instances int `json:"instances,omitempty"`
}

// Defaults of Policy, in seconds where they are times (GSE register_proc_info, spec.monitor_policy).
const (
	defaultStartCheck    = 5
	defaultStopCheck     = 5
	defaultStartRetries  = 4
	defaultStartInterval = 10
	defaultOpTimeout     = 60
)

// Defaulted returns the policy with every value that is zero or negative replaced by its default: on the wire 0 and
// null mean "not configured" (contract of the callers).
func (p Policy) Defaulted() Policy {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	p.StartCheckEnd = max(p.StartCheckEnd, 0)
	if p.StartCheckBegin <= 0 {
		p.StartCheckBegin = defaultStartCheck
		if p.StartCheckEnd > 0 {
			p.StartCheckBegin = min(p.StartCheckBegin, p.StartCheckEnd)
		}
	}
	set(&p.StopCheck, defaultStopCheck)
	set(&p.StartRetries, defaultStartRetries)
	set(&p.StartInterval, defaultStartInterval)
	set(&p.OpTimeout, defaultOpTimeout)
	if p.Kind == "" {
		p.Kind = Resident
	}
	return p
}

// Schedule says how to run a periodic process; Policy.Crontab or Policy.CycleTime say when.
type Schedule struct {
	// Overlap says what happens if a run is due while the previous run still runs. Missed says what happens to runs
	// that were due while the agent or its host was down.
	Overlap Overlap `json:"overlap,omitempty"`
	Missed  Missed  `json:"missed,omitempty"`
	// Jitter is the largest random delay of each run, in seconds.
	Jitter int `json:"jitter,omitempty"`
	// TimeZone is a name of the IANA database; empty is the zone of the host.
	TimeZone string `json:"time_zone,omitempty"`
}

// Overlap is a choice of Schedule; empty is OverlapSkip.
type Overlap string

// The choices for a run that is due while the previous run still runs: skip it, run it afterwards (once, however many
// were due), or end the previous run.
const (
	OverlapSkip    Overlap = "skip"
	OverlapWait    Overlap = "wait"
	OverlapReplace Overlap = "replace"
)

// Missed is a choice of Schedule; empty is MissedSkip.
type Missed string

// The choices after the agent or its host was down: wait for the next time, or run once now.
const (
	MissedSkip Missed = "skip"
	MissedRun  Missed = "run-once"
)

// HardLimits are enforced by the kernel, through control groups; zero means no limit.
type HardLimits struct {
	// Memory is in bytes, CPU in percent of one processor, Tasks counts processes and threads.
	Memory int64 `json:"memory,omitempty"`
	CPU    int   `json:"cpu,omitempty"`
	Tasks  int64 `json:"tasks,omitempty"`
}

// Readiness defines when a start has succeeded, within the start check time; exactly one of its fields is set.
// Without Readiness, a process is ready if it is alive at the end of that time.
type Readiness struct {
	// TCP is an address, "host:port", that accepts a connection.
	TCP string `json:"tcp,omitempty"`
	// HTTP is a URL that answers a GET with a status from 200 to 399.
	HTTP string `json:"http,omitempty"`
	// Exec is a command line that exits with status 0.
	Exec string `json:"exec,omitempty"`
	// Log is a regular expression (RE2) that a line of the output of the start command, or of the log file, matches.
	Log string `json:"log,omitempty"`
}

// Probes say how often to check a running process for its health and version. All times are seconds; 0 is the
// default.
type Probes struct {
	HealthInterval  int `json:"health_interval,omitempty"`  // 60
	HealthTimeout   int `json:"health_timeout,omitempty"`   // 5
	VersionInterval int `json:"version_interval,omitempty"` // 600
	// Grace is the time after a start without health checks.
	Grace int `json:"grace,omitempty"`
	// Failures is the number of failed checks in a row that make the process unhealthy (3). With Restart the agent
	// then ends and relaunches it; without Restart the agent only reports it.
	Failures int  `json:"failures,omitempty"`
	Restart  bool `json:"restart,omitempty"`
}

// Group limits the sum of what the processes of a namespace use on one host.
type Group struct {
	ID string `json:"id"`
	// CPULimit and MemLimit are percent of the whole machine; 0 is no limit.
	CPULimit float64 `json:"cpu_limit,omitempty"`
	MemLimit float64 `json:"mem_limit,omitempty"`
	// CPUWeight and MemWeight are 0 or 1: whether the choice of a victim considers a process's own limit.
	CPUWeight int `json:"cpu_weight,omitempty"`
	MemWeight int `json:"mem_weight,omitempty"`
}

// ConfigFile is a configuration file whose checksum drover watches.
type ConfigFile struct {
	Path string `json:"path"`
	MD5  string `json:"md5"`
}
