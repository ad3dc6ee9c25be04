package gse

import (
	"fmt"

	"drover/internal/process"
)

// ReadAgentHosts reads the body of GSE's get_agent_status and get_agent_info.
func ReadAgentHosts(body []byte) ([]Target, error) {
	var b targets
	if err := scan(body, b.read); err != nil {
		return nil, err
	}
	return b.list("", noProcess(), agentKey)
}

// ReadJobAgents reads the body of JOB's get_agent_status.
func ReadJobAgents(body []byte) ([]Target, error) {
	var (
		scope jobScope
		hosts []host
	)
	err := scan(body, func(s *scanner) {
		s.object("", func(name []byte) {
			if string(name) == "ip_list" {
				hosts = readHosts("ip_list", s)
				return
			}
			scope.member(name, s)
		})
	})
	if err != nil {
		return nil, err
	}
	if _, err := scope.namespace(); err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, missing("ip_list")
	}
	return listHosts("ip_list", hosts, noProcess(), agentKey)
}

// ReadAgentIDs reads the body of list_agent_state and list_agent_info, which may name hosts too.
func ReadAgentIDs(body []byte) ([]Target, error) { return ReadAgentHosts(body) }

// Upgrade asks for an agent id for a host, in addition to its address.
type Upgrade struct {
	Target Target
	// ID is the new agent id; the host's own cloud:ip cancels an earlier one.
	ID string
}

// upgradeBody has an id for each host.
type upgradeBody struct {
	Hosts []host `json:"hosts"`
	IDs   []Str  `json:"hosts[].bk_agent_id"`
}

// ReadUpgrade reads the body of upgrade_to_agent_id. It rejects an id that looks like the address of another host,
// because calls for that host would reach this host.
func ReadUpgrade(body []byte) ([]Upgrade, error) {
	var b upgradeBody
	if err := scan(body, b.read); err != nil {
		return nil, err
	}
	if len(b.Hosts) == 0 {
		return nil, missing("hosts")
	}
	list, err := listHosts("hosts", b.Hosts, noProcess(), agentKey)
	if err != nil {
		return nil, err
	}
	out := make([]Upgrade, len(list))
	for i, t := range list {
		id, field := b.IDs[i], func() string { return fmt.Sprintf("hosts[%d].bk_agent_id", i) }
		if err := checkTarget(id, field); err != nil {
			return nil, err
		}
		if HostOf(id.value).IP == "" && process.HostIDFault(id.value) != nil { // wherever a call names hosts, it would mean others
			return nil, misreadf("%s is not an id: expected letters, digits, -, _, . and :", field())
		}
		if h := HostOf(id.value); h.IP != "" && !sameAddress(h, t.Host) {
			return nil, misreadf("%s: %q is the address of another host than %s", field(), id.value, t.Host.Agent())
		}
		out[i] = Upgrade{Target: t, ID: id.value}
	}
	return out, nil
}

// The codes of an agent's state on the wire. Only agentRunning counts as alive.
const (
	agentUnknown = -1
	agentRunning = 2
)

// runModeAgent is the run mode of an agent; 0 is that of a proxy.
const runModeAgent = 1

// Agent is the data of one agent for a row.
type Agent struct {
	// Asked is the id in the caller's spelling; Host the agent's address, as far as it is known.
	Asked   string
	Host    Host
	Known   bool
	Present bool
	Version string
	OS      string // such as "linux"
	Arch    string // such as "x86_64"
	CPUs    int
	Memory  int64 // bytes
	// CPURate and MemRate are how busy the host is, in percent of the whole machine; 0 if unknown.
	CPURate, MemRate float64
	// Started, Seen and Linked are Unix milliseconds: the start of the agent, its last message, and the beginning of
	// its present link; 0 if unknown.
	Started, Seen, Linked int64
}

// AgentState is one element of list_agent_state.
type AgentState struct {
	AgentID    string `json:"bk_agent_id"`
	Cloud      int    `json:"bk_cloud_id"`
	Version    string `json:"version"`
	RunMode    int    `json:"run_mode"`
	StatusCode int    `json:"status_code"`
	ReportTime int64  `json:"report_time"` // ms
}

// StateOf returns the row of list_agent_state.
func StateOf(a Agent) AgentState {
	code, _ := a.status()
	return AgentState{
		AgentID: a.Asked, Cloud: a.Host.Cloud, Version: a.Version, RunMode: runModeAgent,
		StatusCode: code, ReportTime: a.Seen,
	}
}

// AgentInfo is one element of list_agent_info. A figure that drover does not measure is 0 or empty.
type AgentInfo struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	AgentState
	IP             string  `json:"bk_host_ip"`
	OS             string  `json:"bk_os_type"`
	Arch           string  `json:"bk_cpu_architecture"`
	ParentIP       string  `json:"parent_ip"`
	ParentPort     int     `json:"parent_port"`
	CPURate        float64 `json:"cpu_rate"` // percent of the whole machine
	MemRate        float64 `json:"mem_rate"`
	CPUs           int     `json:"cpu_num"`
	Memory         int64   `json:"mem_size"` // MB
	StartTime      int64   `json:"start_time"`
	LastWorkTime   int64   `json:"last_work_time"`
	ConnCycleTime  string  `json:"conn_cycle_time"` // seconds, as text
	Status         string  `json:"status"`
	LastStatusCode int     `json:"last_status_code"`
	LastStatus     string  `json:"last_status"`
	Remark         string  `json:"remark"`
}

// InfoOf returns the row of list_agent_info; now is in Unix milliseconds.
func InfoOf(a Agent, now int64) AgentInfo {
	code, status := a.status()
	info := AgentInfo{
		Message: "success", AgentState: StateOf(a), IP: a.Host.IP, OS: a.OS, Arch: a.Arch, CPUs: a.CPUs,
		Memory:    a.Memory >> 20,
		StartTime: a.Started, LastWorkTime: a.Seen, ConnCycleTime: "0", Status: status, LastStatusCode: code,
		LastStatus: status,
	}
	if !a.Known {
		info.Message = "agent not found"
	}
	if a.Present {
		info.CPURate, info.MemRate = a.CPURate, a.MemRate
	}
	if a.Present && a.Linked > 0 {
		info.ConnCycleTime = fmt.Sprint(max(now-a.Linked, 0) / 1000)
	}
	return info
}

func (a Agent) status() (code int, word string) {
	if a.Known && a.Present {
		return agentRunning, "running"
	}
	return agentUnknown, "unknown"
}

// AgentAlive is one value of GSE's get_agent_status, and one element of JOB's.
type AgentAlive struct {
	IP    string `json:"ip"`
	Cloud int    `json:"bk_cloud_id"`
	Alive int    `json:"bk_agent_alive"` // 0 or 1
}

// AliveOf returns whether the agent is there.
func AliveOf(a Agent) AgentAlive {
	out := AgentAlive{IP: a.Host.IP, Cloud: a.Host.Cloud}
	if a.Known && a.Present {
		out.Alive = 1
	}
	return out
}

// AgentVersion is one value of get_agent_info.
type AgentVersion struct {
	IP         string `json:"ip"`
	Version    string `json:"version"`
	Cloud      int    `json:"bk_cloud_id"`
	ParentIP   string `json:"parent_ip"`
	ParentPort int    `json:"parent_port"`
}

// VersionOf returns the value of get_agent_info for an agent.
func VersionOf(a Agent) AgentVersion {
	return AgentVersion{IP: a.Host.IP, Version: a.Version, Cloud: a.Host.Cloud}
}
