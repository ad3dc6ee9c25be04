package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"time"
)

// Process is one process on one host, as the host last reported it.
type Process struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      Host   `json:"host"`
	// State is a word such as running, flapping or given-up: see docs/cli.md. Stale tells that the host is away, so
	// that this is the last known state.
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
	// Spec describes how drover runs the process. Lists hold it only on request.
	Spec *Spec `json:"spec,omitempty"`

	ProcessDetail
}

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
	Config []Drift `json:"config,omitempty"`
	Usage  *Usage  `json:"usage,omitempty"`
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

// Drift is a configuration file whose MD5 differs from the MD5 in the spec. Have is empty if the agent cannot read the
// file.
type Drift struct {
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
	Processes int        `json:"processes"`
	At        *time.Time `json:"at,omitempty"`
}

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
}

// Spec describes how drover runs a process. All times are whole seconds; zero means the default.
type Spec struct {
	Identity   Identity        `json:"identity"`
	Commands   Commands        `json:"commands"`
	Limits     Limits          `json:"limits,omitzero"`
	Policy     Policy          `json:"policy,omitzero"`
	Schedule   Schedule        `json:"schedule,omitzero"`
	Hard       HardLimits      `json:"hard_limits,omitzero"`
	Ready      *Readiness      `json:"ready,omitempty"`
	Probes     Probes          `json:"probes,omitzero"`
	ReportID   int64           `json:"report_id,omitempty"`
	Config     []ConfigFile    `json:"config,omitempty"`
	Labels     json.RawMessage `json:"labels,omitempty"`
	FuncID     string          `json:"func_id,omitempty"`
	InstanceID string          `json:"instance_id,omitempty"`
	Contact    string          `json:"contact,omitempty"`
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
	Start   string `json:"start,omitempty"`
	Stop    string `json:"stop,omitempty"`
	Restart string `json:"restart,omitempty"`
	Reload  string `json:"reload,omitempty"`
	Kill    string `json:"kill,omitempty"`
	Version string `json:"version,omitempty"`
	Health  string `json:"health,omitempty"`
}

// Limits are upper limits, in percent of the whole machine or as counts. Zero means no limit.
type Limits struct {
	CPU  float64 `json:"cpu,omitempty"`
	Mem  float64 `json:"mem,omitempty"`
	FD   int64   `json:"fd,omitempty"`
	Disk int64   `json:"disk,omitempty"`
	Net  int64   `json:"net,omitempty"`
}

// Policy says how drover watches a process, and how long its operations may take.
type Policy struct {
	// Kind is resident, single-run or periodic.
	Kind string `json:"kind,omitempty"`
	// KindAssumed tells that the caller did not choose the kind of the process.
	KindAssumed     bool   `json:"kind_assumed,omitempty"`
	StartCheckBegin int    `json:"start_check_begin,omitempty"`
	StartCheckEnd   int    `json:"start_check_end,omitempty"`
	StopCheck       int    `json:"stop_check,omitempty"`
	StartRetries    int    `json:"start_retries,omitempty"`
	StartInterval   int    `json:"start_interval,omitempty"`
	OpTimeout       int    `json:"op_timeout,omitempty"`
	Crontab         string `json:"crontab,omitempty"`
	CycleTime       int    `json:"cycle_time,omitempty"`
	Instances       int    `json:"instances,omitempty"`
}

// ConfigFile is a configuration file whose checksum drover watches.
type ConfigFile struct {
	Path string `json:"path"`
	MD5  string `json:"md5"`
}

// ProcessFilter selects processes. An empty field matches all. Namespaces and names are patterns: * matches any text, ?
// one character.
type ProcessFilter struct {
	Namespace string
	Name      string
	// Hosts are ids or cloud:ip, or patterns of either. States are values of Process.State.
	Hosts  []string
	States []string
	// Spec asks for the specs.
	Spec bool
	// Limit is the largest number of processes; 0 means no limit.
	Limit int
}

// Processes lists processes, ordered by namespace and name.
func (c *Client) Processes(ctx context.Context, f ProcessFilter) iter.Seq2[Process, error] {
	query := url.Values{}
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	set(query, "state", f.States...)
	if f.Spec {
		query.Set("spec", "true")
	}
	return pages[Process](ctx, c, "/processes", query, f.Limit)
}

// Process returns one process, with its spec, on all hosts that know it.
func (c *Client) Process(ctx context.Context, namespace, name string) ([]Process, error) {
	return Collect(pages[Process](ctx, c, "/processes/"+segment(namespace)+"/"+segment(name), url.Values{}, 0))
}

// Agent is a joined host.
type Agent struct {
	Host
	// Key is the host's own public key. It stays the same if the host's names change.
	Key      string    `json:"key"`
	Build    string    `json:"build"`
	JoinedAt time.Time `json:"joined_at"`
	// Labels and Business come from the token that the host joined with; both may be empty.
	Labels   map[string]string `json:"labels,omitempty"`
	Business int64             `json:"business,omitempty"`
	// Policy is the policy of the host's owner in one line; empty if there is none. Notes are problems of the host.
	Policy string   `json:"policy,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

// AgentFilter selects hosts. An empty field matches all.
type AgentFilter struct {
	// Hosts are ids or cloud:ip, or patterns of either.
	Hosts []string
	// State is "online" or "away".
	State string
	// Limit is the largest number of hosts; 0 means no limit.
	Limit int
}

// Agents lists hosts, ordered by cloud area and address.
func (c *Client) Agents(ctx context.Context, f AgentFilter) iter.Seq2[Agent, error] {
	query := url.Values{}
	set(query, "host", f.Hosts...)
	set(query, "state", f.State)
	return pages[Agent](ctx, c, "/agents", query, f.Limit)
}

// CountProcesses counts the processes that match the filter; it ignores States and Limit of the filter.
func (c *Client) CountProcesses(ctx context.Context, f ProcessFilter) (ProcessCounts, error) {
	query := url.Values{}
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	var n ProcessCounts
	err := c.get(ctx, "/processes/counts", query, &n)
	return n, err
}
