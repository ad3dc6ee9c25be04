package v1

import "time"

// Process is one process on one host, as the host last reported it.
type Process struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      Host   `json:"host"`
	// State is one of the constants below, such as StateRunning. Stale tells that the host is away, so that State is
	// the last known state.
	State   string `json:"state"`
	Stale   bool   `json:"stale"`
	Message string `json:"message,omitempty"`
	// Hosted tells that drover watches the process, and relaunches it if it ends by itself.
	Hosted bool `json:"hosted"`
	// Want is "running", "stopped", or empty if drover expects neither.
	Want     string    `json:"want,omitempty"`
	Instance *Instance `json:"instance,omitempty"`

	RegisteredAt *time.Time `json:"registered_at,omitempty"`
	LastStartAt  *time.Time `json:"last_start_at,omitempty"`
	ReportedAt   *time.Time `json:"reported_at,omitempty"`
	// Spec describes how drover runs the process. Revision is the revision that last changed the spec on this host; 0
	// if it is unknown. Lists hold both only on request.
	Spec     *Spec `json:"spec,omitempty"`
	Revision int64 `json:"revision,omitempty"`
	// Unknown is set for a moment of the past if the state was not known then. The State is StateUnknown.
	Unknown *Unknown `json:"unknown,omitempty"`

	ProcessDetail
}

// The states of a Process: the states of docs/states.md, and three states that replace a less specific one.
const (
	StateUnknown   = "unknown"
	StateStopped   = "stopped"
	StateScheduled = "scheduled"
	StateStarting  = "starting"
	StateRunning   = "running"
	StateFlapping  = "flapping"  // drover relaunched it too often lately, whatever it does now
	StateUnhealthy = "unhealthy" // it runs, and its health checks fail
	StateNotReady  = "not-ready" // it runs, and is not ready yet
	StateStopping  = "stopping"
	StateBackoff   = "backoff"
	StateGivenUp   = "given-up"
	StateFinished  = "finished"
	StateOperating = "operating"
)

// ProcessDetail holds the details of a process beside its state.
type ProcessDetail struct {
	// Cause explains why the process is not as it should be, or does not run.
	Cause *Cause `json:"cause,omitempty"`
	// Further are the other causes, the worst first.
	Further []Cause `json:"further,omitempty"`
	// Flapping tells that drover relaunched the process too often lately. Restarts counts the relaunches since an
	// operation started the process or the host booted.
	Flapping bool  `json:"flapping,omitempty"`
	Restarts int   `json:"restarts,omitempty"`
	LastExit *Exit `json:"last_exit,omitempty"`
	// Health and Version are the last answers of the health and version commands.
	Health  *Answer `json:"health,omitempty"`
	Version *Answer `json:"version,omitempty"`
	// Config lists the configuration files that differ from the spec.
	Config []ConfigDrift `json:"config,omitempty"`
	Usage  *Usage        `json:"usage,omitempty"`
	// NextRun is the next time of a periodic process; Runs are its last runs, newest first.
	NextRun *time.Time `json:"next_run,omitempty"`
	Runs    []Run      `json:"runs,omitempty"`
}

// Answer is the last answer of a health or version command. Bad tells that there were enough consecutive failures to
// make the process unhealthy.
type Answer struct {
	OK       bool       `json:"ok"`
	Text     string     `json:"text,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	Failures int        `json:"failures,omitempty"`
	Bad      bool       `json:"bad,omitempty"`
	// Since is the time of the first consecutive failure.
	Since *time.Time `json:"since,omitempty"`
}

// ConfigDrift is a configuration file whose MD5 differs from the MD5 in the spec. Have is empty if the agent cannot
// read the file.
type ConfigDrift struct {
	Path    string     `json:"path"`
	Want    string     `json:"want"`
	Have    string     `json:"have,omitempty"`
	Problem string     `json:"problem,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// Usage is the resource use of a process with its whole tree, in percent of the whole machine.
type Usage struct {
	CPU       float64    `json:"cpu_percent"`
	Mem       float64    `json:"mem_percent"`
	RSS       int64      `json:"rss_bytes,omitempty"`
	Processes int        `json:"processes"`
	Files     int        `json:"open_files,omitempty"`
	At        *time.Time `json:"at,omitempty"`
}

// UsageHistory has the resources that a process with its whole tree has used on one host. Times are by the clock of the
// host.
type UsageHistory struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      Host   `json:"host"`
	// Step is the length of each step in seconds. Start is the time at which the oldest step begins, and End the time
	// at which the newest step ends; that step may go on. Both are nil if there is a Problem.
	Step  int        `json:"step_seconds"`
	Start *time.Time `json:"start,omitempty"`
	End   *time.Time `json:"end,omitempty"`
	// Steps are the steps in which the host has measured the process, the oldest first.
	Steps []UsageStep `json:"steps"`
	// Problem says why the host has not answered.
	Problem string `json:"problem,omitempty"`
}

// UsageStep has the resources that a process used in one step. CPU is the mean, in percent of the whole machine.
// Memory, in bytes, and Files are the largest values in the step; Files is 0 if it is not known.
type UsageStep struct {
	// At is the end of the step.
	At     time.Time `json:"at"`
	CPU    float64   `json:"cpu_percent"`
	Memory int64     `json:"memory_bytes"`
	Files  int       `json:"open_files,omitempty"`
	// Restarted tells that another instance of the process began in the step.
	Restarted bool `json:"restarted,omitempty"`
}

// Window returns all steps from Start to End, with nil for those in which nobody has measured the process.
func (h *UsageHistory) Window() []*UsageStep {
	step := time.Duration(h.Step) * time.Second
	if h.Start == nil || h.End == nil || step <= 0 || h.End.Sub(*h.Start) > mostSteps*step {
		return nil
	}
	all := make([]*UsageStep, max(0, h.End.Sub(*h.Start)/step))
	for i := range h.Steps {
		if n := int(h.Steps[i].At.Sub(*h.Start)/step) - 1; n >= 0 && n < len(all) {
			all[n] = &h.Steps[i]
		}
	}
	return all
}

// mostSteps is the largest number of steps of a UsageHistory.
const mostSteps = 288

// The windows of a UsageHistory.
const (
	UsageQuarter = "15m"
	UsageHour    = "1h"
	UsageDay     = "24h"
)

// Run is one run of a periodic or single-run process; EndedAt is nil while it lasts.
type Run struct {
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	PID       int        `json:"pid,omitempty"`
	Exit      *Exit      `json:"exit,omitempty"`
	Output    string     `json:"output,omitempty"`
}

// ProcessCounts holds the numbers of processes: States by state, and Stale for processes of hosts that are away.
type ProcessCounts struct {
	States map[string]int `json:"states"`
	Stale  int            `json:"stale"`
	Total  int            `json:"total"`
}

// ProcessGroup counts the processes that share a value of a grouping. Its States leave out stale processes.
type ProcessGroup struct {
	// Key is the value that the processes share, such as "shop/api" or the name of a host; empty for processes without
	// a value.
	Key string `json:"key"`
	ProcessCounts
	Hosts int `json:"hosts"`
	// Hosted counts the processes that drover watches. Wrong counts the processes that are not as they should be.
	Hosted int `json:"hosted"`
	Wrong  int `json:"wrong"`
	// ChangedAt is the last time at which a process of the group got its cause or was started; nil if that time is
	// unknown.
	ChangedAt *time.Time `json:"changed_at,omitempty"`
}

// Overview is the state of the processes that the caller may query.
type Overview struct {
	Processes ProcessCounts `json:"processes"`
	// Wrong counts the processes that are not as they should be; Causes groups them, the worst first.
	Wrong  int          `json:"wrong"`
	Causes []CauseGroup `json:"causes"`
	// Hosts is nil if the caller may not read hosts.
	Hosts *HostCounts `json:"hosts,omitempty"`
}

// CauseGroup is the processes with one cause, the main or a further one.
type CauseGroup struct {
	CauseCount
	Hosts int `json:"hosts"`
	// Since is the time at which the first of the processes got the cause; nil if that time is unknown.
	Since *time.Time `json:"since,omitempty"`
	// Processes are the ten processes with the most hosts.
	Processes []ProcessCount `json:"processes"`
	// Trend tells how many of the processes already had the cause at the end of each of the last TrendSteps steps of 5
	// minutes, the oldest step first. The last number is Count.
	Trend []int `json:"trend"`
}

// TrendSteps is the number of steps of a trend, which is an hour long.
const TrendSteps = 12

// ProcessCount is a process with the number of its hosts or copies.
type ProcessCount struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Count     int    `json:"count"`
}

// HostCounts counts the hosts that the caller may read. OldestReport is the oldest of the last messages of the hosts
// that are online; nil if there is none.
type HostCounts struct {
	Online       int        `json:"online"`
	Away         int        `json:"away"`
	OldestReport *time.Time `json:"oldest_report,omitempty"`
}

// Host is the host of a process.
type Host struct {
	// ID is the host's stable id, or cloud:ip if it has none.
	ID     string `json:"id"`
	Cloud  int    `json:"cloud"`
	IP     string `json:"ip"`
	Online bool   `json:"online"`
	// LastSeen is the time of the host's last message; nil if there is none since the start of the server.
	LastSeen *time.Time `json:"last_seen,omitempty"`
}

// The states of hosts, for filters.
const (
	HostOnline = "online"
	HostAway   = "away"
)

// Instance is a running process.
type Instance struct {
	PID       int        `json:"pid"`
	Cmdline   string     `json:"cmdline,omitempty"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	// CPU is percent of the whole machine since the last sample, and Mem percent of its memory; RSS is in bytes.
	CPU     float64 `json:"cpu_percent"`
	Mem     float64 `json:"mem_percent"`
	RSS     int64   `json:"rss_bytes"`
	Threads int     `json:"threads,omitempty"`
	Version string  `json:"version,omitempty"`
	Health  string  `json:"health,omitempty"`
	// Revision is the revision of the spec that the instance runs with; 0 if it is unknown. The instance runs with the
	// stored spec unless a change waits for the next start.
	Revision int64 `json:"revision,omitempty"`
}

// JoinedHost is a host that has joined the fleet: its names, its labels, and what its agent reports of it.
type JoinedHost struct {
	Host
	// Key is the host's own public key. It stays the same if the host's names change.
	Key string `json:"key"`
	// Name is the host's own name.
	Name     string    `json:"name,omitempty"`
	Build    string    `json:"build"`
	JoinedAt time.Time `json:"joined_at"`
	// Labels are the labels that select the host, and LabelSources the source of each: LabelOfPerson, LabelOfToken or
	// LabelOfHost. A label of the host itself grants no right.
	Labels       map[string]string `json:"labels,omitempty"`
	LabelSources map[string]string `json:"label_sources,omitempty"`
	// Facts are what the host reports of itself.
	Facts Facts `json:"facts,omitzero"`
	// Load is how busy the host is; nil if that is unknown or the host is away.
	Load *Load `json:"load,omitempty"`
	// Business comes from the token that the host joined with; 0 means none.
	Business int64 `json:"business,omitempty"`
	// WantedBuild is the version that the last upgrade of the agent named, and Upgrade says how the upgrade ended.
	WantedBuild string `json:"wanted_build,omitempty"`
	Upgrade     string `json:"upgrade,omitempty"`
	// Policy is the policy of the host's owner in one line; empty if there is none. Notes are problems of the host.
	Policy string   `json:"policy,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

// The sources of a label, strongest first: set by a person, by the join token, or by the host's own configuration.
const (
	LabelOfPerson = "person"
	LabelOfToken  = "token"
	LabelOfHost   = "host"
)

// Facts describe a host, as its agent reports them. Unknown facts are empty.
type Facts struct {
	// OS is the distribution, such as "debian", and OSVersion its version. A selector knows the texts by these names.
	OS        string `json:"os,omitempty"`
	OSVersion string `json:"os_version,omitempty"`
	Kernel    string `json:"kernel,omitempty"`
	Arch      string `json:"arch,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
	Memory    int64  `json:"memory,omitempty"` // bytes
	Disks     []Disk `json:"disks,omitempty"`
	// Own are the facts of the owner of the host. A selector knows them as fact.NAME.
	Own map[string]string `json:"own,omitempty"`
}

// Load is how busy a host is, in percent of the whole machine: the processors over the last minute, and the memory in
// use.
type Load struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// Disk is a file system of a host on a block device.
type Disk struct {
	Path string `json:"path"`
	Size int64  `json:"size"` // bytes
}

// LabelRequest sets and removes labels of hosts, of all or of none.
type LabelRequest struct {
	// Hosts are ids or cloud:ip, or patterns of either. Select is an expression. With both, a host must match both.
	Hosts  []string `json:"hosts,omitempty"`
	Select string   `json:"select,omitempty"`
	// Set has the labels to set, and Remove the keys of the labels to remove.
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
}

// HostTotals counts the hosts that a filter selects.
type HostTotals struct {
	Hosts  int `json:"hosts"`
	Online int `json:"online"`
	// Groups are the hosts by the values of a label or a fact, in the order of the values; nil unless the caller asked
	// for groups.
	Groups []HostGroup `json:"groups,omitempty"`
}

// HostGroup is the number of hosts with one value of a label or a fact. Value is empty for hosts without it.
type HostGroup struct {
	Value  string `json:"value"`
	Hosts  int    `json:"hosts"`
	Online int    `json:"online"`
}

// Labelled names the hosts whose labels were set, or would be.
type Labelled struct {
	Hosts []string `json:"hosts"`
	// Unchanged counts the hosts that had these labels already.
	Unchanged int `json:"unchanged,omitempty"`
	// Reselected are the changed hosts of selections in process files, by the expression.
	Reselected []Reselected `json:"reselected,omitempty"`
}

// Reselected tells how many hosts come to match an expression, and so get the processes, and how many cease to match.
// Select and Processes are empty for an expression of processes that the caller may not query.
type Reselected struct {
	Select    string   `json:"select"`
	Processes []string `json:"processes"`
	Come      int      `json:"come"`
	Cease     int      `json:"cease"`
	// Ends counts the hosts of Cease on which drover stops a process because its file says leave: stop.
	Ends int `json:"ends,omitempty"`
}

// TargetGroup is a host in the form of Prometheus' HTTP service discovery.
type TargetGroup struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}
