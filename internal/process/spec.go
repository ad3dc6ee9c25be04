package process

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "drover/api/v1"
)

// Spec describes how to run a process. A sent spec replaces the stored spec completely: an empty command stays empty.
// The wire, and the disks of servers and agents have it in the same JSON; drover's own API has v1.Spec. Times are whole
// seconds where nothing else is said; zero means the default.
type Spec struct {
	Identity  Identity       `json:"identity"`
	Commands  Commands       `json:"commands"`
	Limits    Limits         `json:"limits,omitzero"`
	Policy    Policy         `json:"policy,omitzero"`
	Execution Execution      `json:"execution,omitzero"`
	Restart   *RestartPolicy `json:"restart,omitempty"`
	Stop      *StopPolicy    `json:"stop,omitempty"`
	Log       LogPolicy      `json:"log,omitzero"`
	// BeforeStart is the command before a start, and its time limit. BeforeStop is the command before a stop, and the
	// pause after it.
	BeforeStart *Hook `json:"before_start,omitempty"`
	BeforeStop  *Hook `json:"before_stop,omitempty"`
	// Preflight is the command that must succeed before a restart ends the process, and before a reload.
	Preflight *Hook `json:"preflight,omitempty"`
	// After has the state that other processes of the host must have before a start, by name or namespace/name.
	After      map[string]string `json:"after,omitempty"`
	Timeouts   Timeouts          `json:"timeouts,omitzero"`
	Schedule   Schedule          `json:"schedule,omitzero"`
	Hard       HardLimits        `json:"hard_limits,omitzero"`
	Ready      *Readiness        `json:"ready,omitempty"`
	Probes     Probes            `json:"probes,omitzero"`
	ReportID   int64             `json:"report_id,omitempty"`
	Config     []ConfigFile      `json:"config,omitempty"`
	Labels     json.RawMessage   `json:"labels,omitempty"`
	FuncID     string            `json:"func_id,omitempty"`
	InstanceID string            `json:"instance_id,omitempty"`
	Contact    string            `json:"contact,omitempty"`
	// Leave says what becomes of the process on a host that its selection no longer matches, and Drift what the server
	// does about a difference between the spec and the running process. Only servers read these.
	Leave Leave    `json:"leave,omitempty"`
	Drift Drifting `json:"drift,omitempty"`
	// Rollout says how an apply of the process spreads over hosts; agents only keep it.
	Rollout *v1.RolloutPlan `json:"rollout,omitempty"`
	// Revision is the revision of the namespace that brought the spec; 0 if it is unknown. Servers number revisions. It
	// is not a part of what the spec says: see Same.
	Revision int64 `json:"revision,omitempty"`
	// Beside is for one order, and is not stored.
	Beside Beside `json:"beside,omitempty"`
}

// Leave is what becomes of a process on a host that ceases to match; empty means that the process stays.
type Leave string

// LeaveStop stops the process, and then removes it.
const LeaveStop Leave = "stop"

// Drifting is what the server does about drift; empty means that it only reports.
type Drifting string

// DriftMend makes the process anew as its spec says.
const DriftMend Drifting = "mend"

// After is a state that another process must have before a start.
type After string

// The values of After: the other process runs, is ready, or has succeeded.
const (
	AfterStarted  After = "started"
	AfterReady    After = "ready"
	AfterFinished After = "finished"
)

// Beside says what a start does if a copy of the process runs that drover does not watch. Only drover's own API asks
// for it: a start of the compatible APIs does not look for copies.
type Beside string

// The values of Beside: the start fails and names the copies; the copy becomes the process; the process starts beside
// the copies.
const (
	Refuse   Beside = ""
	TakeOver Beside = "take-over"
	// Adopt is TakeOver that starts nothing: without a copy it fails.
	Adopt       Beside = "adopt"
	StartBeside Beside = "start"
)

// WithPID returns Adopt of the process with that pid that began at that time, in clock ticks since boot. Then the
// command line and the directory of the process do not count. If another supervisor keeps it as its main process, its
// executable does not count either, nor its account in place of root: it may have changed both.
func (b Beside) WithPID(pid int, began uint64) Beside {
	return b + Beside(fmt.Sprintf(":%d:%d", pid, began))
}

// Split returns the value without the parts of WithPID, and these; 0 if there are none.
func (b Beside) Split() (wish Beside, pid int, began uint64) {
	name, rest, _ := strings.Cut(string(b), ":")
	_, _ = fmt.Sscanf(rest, "%d:%d", &pid, &began) // the server has made it
	return Beside(name), pid, began
}

// Identity says where a process lives and how to recognise it.
type Identity struct {
	// ProcName is the base name of the executable, and SetupPath the absolute working directory. PIDPath is the
	// absolute path of the pid file. User is the account of the process.
	ProcName   string `json:"proc_name"`
	SetupPath  string `json:"setup_path"`
	PIDPath    string `json:"pid_path"`
	ConfigPath string `json:"config_path,omitempty"`
	LogPath    string `json:"log_path,omitempty"`
	User       string `json:"user"`
}

// Commands are shell command lines; each may be empty.
type Commands struct {
	// Run is the command line of a foreground process: the command is the process. A spec has Run or Start.
	Run     string `json:"run,omitempty"`
	Start   string `json:"start,omitempty"`
	Stop    string `json:"stop,omitempty"`
	Restart string `json:"restart,omitempty"`
	Reload  string `json:"reload,omitempty"`
	// ReloadSignal replaces Reload: the signal, such as "HUP", that makes the process read its configuration again.
	ReloadSignal string `json:"reload_signal,omitempty"`
	Kill         string `json:"kill,omitempty"`
	Version      string `json:"version,omitempty"`
	Health       string `json:"health,omitempty"`
}

// Hook is a command beside the others, and a time in milliseconds.
type Hook struct {
	Run  string `json:"run"`
	Time int64  `json:"time,omitempty"`
}

// Timeouts bound commands that Policy.OpTimeout does not bound alone, in milliseconds; 0 means the default.
type Timeouts struct {
	Reload  int64 `json:"reload,omitempty"`
	Version int64 `json:"version,omitempty"`
}

// Execution is what the commands of a process get beside account and directory. Absent values are those of the host.
type Execution struct {
	// Environment holds variables by name. EnvironmentFiles are absolute paths of files with lines NAME=value, with a
	// minus before an optional one; drover reads them on the host at each start.
	Environment      map[string]string `json:"environment,omitempty"`
	EnvironmentFiles []string          `json:"environment_files,omitempty"`
	// Group replaces the primary group of the account, and Groups the supplementary groups; nil keeps the account's.
	Group  string   `json:"group,omitempty"`
	Groups []string `json:"groups,omitzero"`
	// Umask is 0 to 0o777, Nice -20 to 19, OOMScoreAdjust -1000 to 1000.
	Umask           *int `json:"umask,omitempty"`
	Nice            *int `json:"nice,omitempty"`
	OOMScoreAdjust  *int `json:"oom_score_adjust,omitempty"`
	NoNewPrivileges bool `json:"no_new_privileges,omitempty"`
	// Capabilities are the names, without CAP_, of the capabilities that remain; nil keeps the account's.
	Capabilities []string `json:"capabilities,omitzero"`
	// RLimits are limits of setrlimit(2), soft and hard.
	RLimits RLimits `json:"rlimits,omitzero"`
	// StrictLimits says that a start fails if the host cannot give the limits, Nice or OOMScoreAdjust exactly.
	StrictLimits bool `json:"strict_limits,omitempty"`
	// RuntimeDirectory is the name of a directory below /run, made for the account before a start.
	RuntimeDirectory string `json:"runtime_directory,omitempty"`
}

// RLimits are limits of setrlimit(2). Sizes are bytes; nil means no change, and Unlimited no bound.
type RLimits struct {
	OpenFiles    *int64 `json:"open_files,omitempty"`
	CoreSize     *int64 `json:"core_size,omitempty"`
	LockedMemory *int64 `json:"locked_memory,omitempty"`
	StackSize    *int64 `json:"stack_size,omitempty"`
	Processes    *int64 `json:"processes,omitempty"`
	FileSize     *int64 `json:"file_size,omitempty"`
}

// When says after which ends a hosted process is relaunched.
type When string

// The values of When: after every end, after a failure, or never.
const (
	Always    When = "always"
	OnFailure When = "on-failure"
	Never     When = "never"
)

// RestartPolicy is the policy of relaunches. Times are milliseconds. A spec without it has the policy of StartRetries
// and StartInterval.
type RestartPolicy struct {
	When When `json:"when"`
	// Delay is the pause before the second relaunch. Each further pause is Factor times as long, at most MaxDelay,
	// longer or shorter by a random share of at most Jitter percent.
	Delay    int64   `json:"delay"`
	MaxDelay int64   `json:"max_delay"`
	Factor   float64 `json:"factor"`
	Jitter   float64 `json:"jitter"`
	// ResetAfter is the run time after which count and pauses begin anew.
	ResetAfter int64 `json:"reset_after"`
	// GiveUpAfter is the number of relaunches that did not last before drover gives up; 0 means never.
	GiveUpAfter int `json:"give_up_after,omitempty"`
	// SuccessCodes are the ends that count as success, NeverOn those that forbid a relaunch: exit codes, such as "0",
	// and signals, such as "TERM".
	SuccessCodes []string `json:"success_codes"`
	NeverOn      []string `json:"never_on,omitempty"`
}

// StopPolicy is how a process is ended. Times are milliseconds. A spec without it has the policy of StopCheck.
type StopPolicy struct {
	// Timeout bounds the stop command, and the time that the process has after it before the first signal.
	Timeout int64        `json:"timeout"`
	Signals []StopSignal `json:"signals"`
}

// StopSignal is a signal, such as "TERM", and the time until the next one.
type StopSignal struct {
	Signal string `json:"signal"`
	Wait   int64  `json:"wait,omitempty"`
}

// LogPolicy bounds what drover keeps of the output of a foreground process; zero values are defaults.
type LogPolicy struct {
	// MaxSize is bytes (10 MiB), Keep a number of files (5), MaxAge milliseconds (30 days).
	MaxSize int64 `json:"max_size,omitempty"`
	Keep    *int  `json:"keep,omitempty"`
	MaxAge  int64 `json:"max_age,omitempty"`
	// Plain keeps rotated files uncompressed.
	Plain bool `json:"plain,omitempty"`
	// Pipe gives the process pipes, which the agent reads, in place of files. It counts from the next start.
	Pipe bool `json:"pipe,omitempty"`
}

// Limits are upper limits, in percent of the whole machine or as counts. Zero means no limit.
type Limits struct {
	CPU  float64 `json:"cpu,omitempty"`
	Mem  float64 `json:"mem,omitempty"`
	FD   int64   `json:"fd,omitempty"`
	Disk int64   `json:"disk,omitempty"`
	Net  int64   `json:"net,omitempty"`
}

// Kind says how long a process is meant to run.
type Kind string

// The kinds: run by a timer, kept running (the default), or run once.
const (
	Periodic  Kind = "periodic"
	Resident  Kind = "resident"
	SingleRun Kind = "single-run"
)

// Policy says how drover watches a process, and how long its operations may take.
type Policy struct {
	Kind Kind `json:"kind,omitempty"`
	// OnDemand says of a process that runs once that an apply does not start it.
	OnDemand bool `json:"on_demand,omitempty"`
	// KindAssumed tells that the caller did not choose the kind of the process.
	KindAssumed bool `json:"kind_assumed,omitempty"`
	// StartCheckBegin is the time from a start command to the check of the process. If StartCheckEnd is greater, the
	// process may appear until then: drover checks from begin to end. Once it appeared, it must not exit, and it must
	// be alive at the end.
	StartCheckBegin int `json:"start_check_begin,omitempty"`
	StartCheckEnd   int `json:"start_check_end,omitempty"`
	// StopCheck is the time in which a process must exit after its stop command has ended.
	StopCheck int `json:"stop_check,omitempty"`
	// StartRetries is the number of relaunches in a row; StartInterval is the time between them.
	StartRetries  int `json:"start_retries,omitempty"`
	StartInterval int `json:"start_interval,omitempty"`
	// OpTimeout bounds one command.
	OpTimeout int `json:"op_timeout,omitempty"`
	// Crontab and CycleTime are the timetable of a periodic process.
	Crontab   string `json:"crontab,omitempty"`
	CycleTime int    `json:"cycle_time,omitempty"`
	// Instances is the expected number of matching processes. A smaller number shows in the message and changes
	// nothing else.
	Instances int `json:"instances,omitempty"`
	// TimeLimit ends a run of a periodic or single-run process after this many milliseconds; 0 means never.
	TimeLimit int64 `json:"time_limit,omitempty"`
}

// Defaults of Policy, in seconds where they are times.
const (
	defaultStartCheck    = 5
	defaultStopCheck     = 5
	defaultStartRetries  = 4
	defaultStartInterval = 10
	defaultOpTimeout     = 60
)

// Defaulted returns the policy with every value that is zero or negative replaced by its default.
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

// ConfigFile is a configuration file whose checksum drover watches.
type ConfigFile struct {
	Path string `json:"path"`
	MD5  string `json:"md5"`
	// SHA256 replaces MD5.
	SHA256 string `json:"sha256,omitempty"`
}

// Schedule says how drover runs a periodic process; Policy.Crontab or Policy.CycleTime say when.
type Schedule struct {
	// Overlap says what happens if a run is due while the previous run lasts. Missed says what happens to runs that
	// were due while the agent or its host was down.
	Overlap Overlap `json:"overlap,omitempty"`
	Missed  Missed  `json:"missed,omitempty"`
	// Jitter delays each run by a random time of up to this many seconds.
	Jitter int `json:"jitter,omitempty"`
	// TimeZone is a name of the IANA database; empty means the zone of the host.
	TimeZone string `json:"time_zone,omitempty"`
}

// Overlap is a choice of Schedule; empty means OverlapSkip.
type Overlap string

// The choices for a run that is due while the previous run still runs: skip it, run it afterwards (once, however many
// were due), or end the previous run.
const (
	OverlapSkip    Overlap = "skip"
	OverlapWait    Overlap = "wait"
	OverlapReplace Overlap = "replace"
)

// Missed is a choice of Schedule; empty means MissedSkip.
type Missed string

// The choices after the agent or its host was down: wait for the next time, or run once now.
const (
	MissedSkip Missed = "skip"
	MissedRun  Missed = "run-once"
)

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
	// Notify waits for READY=1 at NOTIFY_SOCKET, NotifyFD for a newline on this descriptor, 3 to MaxNotifyFD.
	Notify   bool `json:"notify,omitempty"`
	NotifyFD int  `json:"notify_fd,omitempty"`
	// Alive is the time, in milliseconds, that the process must run; Within bounds the wait for it.
	Alive  *int64 `json:"alive,omitempty"`
	Within int64  `json:"within,omitempty"`
	// StopLate ends a process that is not ready in time.
	StopLate bool `json:"stop_late,omitempty"`
	// Insecure accepts every certificate of an https URL.
	Insecure bool `json:"insecure,omitempty"`
}

// MaxNotifyFD is the highest descriptor of Readiness.NotifyFD.
const MaxNotifyFD = 255

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
	// HTTP, TCP and Watchdog replace the health command: a URL, an address, or WATCHDOG=1 at NOTIFY_SOCKET.
	HTTP     string `json:"http,omitempty"`
	TCP      string `json:"tcp,omitempty"`
	Watchdog bool   `json:"watchdog,omitempty"`
	// Insecure accepts every certificate of an https URL.
	Insecure bool `json:"insecure,omitempty"`
}
