package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/wildcard"
)

// Agent is a host that has joined.
type Agent struct {
	Key string // public nkey
	// Sealing has the agent's public keys of X25519, as nkeys; package pairs defines its form.
	Sealing string
	Cloud   int
	IP      string
	ID      string // its own stable id; empty for one known as cloud:ip only
	// Assigned is an id that a caller gave to the host in addition to its own; empty means none.
	Assigned string
	Build    string
	Created  time.Time
	// Token is the id of the JoinToken that the host joined with; Labels and Business come from that token. All may be
	// empty.
	Token    string
	Labels   map[string]string
	Business int64
	// SetLabels are the labels that people have set. They override the labels of the token and of the host; nil hides a
	// label of these. Only Agents.LabelAgents changes them.
	SetLabels map[string]*string
	// Name is the host's own name. Place identifies host and data directory, and changes with a reboot. Both may be
	// empty.
	Name, Place string
	// SyncedIncarnation is the incarnation of the database to which the agent has told all that it has: what the
	// database says of its processes counts only in that incarnation. Only Agents.SetSyncedIncarnation changes it for a
	// known agent.
	SyncedIncarnation string
	// Host is what the agent reported of its host.
	Host Host
	// Replaces is the key of the agent that this agent replaces when it joins, by its token; it is not stored.
	Replaces string
}

// Named reports whether one of the patterns matches the agent's id, assigned id or CLOUD:IP; no pattern matches all.
func (a *Agent) Named(patterns []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		return wildcard.Match(p, fmt.Sprintf("%d:%s", a.Cloud, a.IP)) || a.ID != "" && wildcard.Match(p, a.ID) ||
			a.Assigned != "" && wildcard.Match(p, a.Assigned)
	})
}

// FormerAgent is an agent that was removed. It has Key, Cloud, IP, ID, Assigned, Created, Labels and SetLabels only.
type FormerAgent struct {
	Agent

	Removed time.Time
}

// Host describes the machine of an agent, as the agent reports it. Nothing here grants a right. Unknown values are
// zero.
type Host struct {
	System  string  `json:"system,omitempty"` // such as "linux"
	OS      string  `json:"os,omitempty"`     // the distribution, such as "debian"
	Version string  `json:"version,omitempty"`
	Kernel  string  `json:"kernel,omitempty"`
	Arch    string  `json:"arch,omitempty"`
	CPUs    int     `json:"cpus,omitempty"`
	Memory  int64   `json:"memory,omitempty"` // bytes
	Disks   []Mount `json:"disks,omitempty"`
	// Full are directories of the agent whose file systems have no room, and since when, in Unix milliseconds.
	Full map[string]int64 `json:"full,omitempty"`
	// Notes say, in words of the agent, what is wrong with the agent itself.
	Notes []string `json:"notes,omitempty"`
	// Labels are the labels of the host's own file, and Facts the facts of its owner; nil if there are none.
	Labels map[string]string `json:"labels,omitempty"`
	Facts  map[string]string `json:"facts,omitempty"`
}

// Mount is a file system of a host on a block device.
type Mount struct {
	Path string `json:"path"`
	Size int64  `json:"size"` // bytes
}

// Granting returns the labels of the host that count for rights.
func (a *Agent) Granting() access.Labels { return access.Labels{Set: a.SetLabels, Joined: a.Labels} }

// Select returns the value of a label or a fact, for selectors.
func (a *Agent) Select(key string) (value string, found bool) {
	switch key {
	case selector.OS:
		return a.Host.OS, a.Host.OS != ""
	case selector.OSVersion:
		return a.Host.Version, a.Host.Version != ""
	case selector.Kernel:
		return a.Host.Kernel, a.Host.Kernel != ""
	case selector.Arch:
		return a.Host.Arch, a.Host.Arch != ""
	case selector.AgentVersion:
		return a.Build, a.Build != ""
	}
	if name, isFact := selector.FactName(key); isFact {
		value, found = a.Host.Facts[name]
		return value, found
	}
	value, found, hidden := a.Granting().Get(key)
	if !found && !hidden {
		value, found = a.Host.Labels[key]
	}
	return value, found
}

// The sources of a label, strongest first.
const (
	LabelOfPerson = "person"
	LabelOfToken  = "token"
	LabelOfHost   = "host"
)

// Label is a label with its source.
type Label struct{ Value, Source string }

// AllLabels returns the labels of the host that count for selectors, without its facts.
func (a *Agent) AllLabels() map[string]Label {
	all := make(map[string]Label, len(a.Labels)+len(a.SetLabels)+len(a.Host.Labels))
	for key, value := range a.Host.Labels {
		all[key] = Label{value, LabelOfHost}
	}
	for key, value := range a.Labels {
		all[key] = Label{value, LabelOfToken}
	}
	for key, value := range a.SetLabels {
		if value == nil {
			delete(all, key)
		} else {
			all[key] = Label{*value, LabelOfPerson}
		}
	}
	return all
}

// Agents is the register of hosts.
type Agents interface {
	// PutAgent inserts or replaces the record of an agent. It keeps the SetLabels and SyncedIncarnation of a known
	// agent. An agent without process groups gets the groups of the agent that had its address before, because that is
	// the same host after a new installation.
	PutAgent(ctx context.Context, a Agent) error
	// ChangeAgent is PutAgent for a known agent. at is the time of the change; the agent's names of before are kept if
	// they change. It returns ErrNotFound for an unknown agent.
	ChangeAgent(ctx context.Context, a Agent, at time.Time) error
	// SetSyncedIncarnation changes the field SyncedIncarnation. It returns ErrNotFound for an unknown agent.
	SetSyncedIncarnation(ctx context.Context, key, incarnation string) error
	// LabelAgents replaces the SetLabels of agents by those that change returns, of all agents or of none. change may
	// run more than once and must not call the store; LabelAgents returns its error. It returns ErrNotFound if an agent
	// is unknown.
	LabelAgents(ctx context.Context, keys []string, change func(Agent) (map[string]*string, error)) error
	// GetAgents returns the known agents among the given keys, unordered.
	GetAgents(ctx context.Context, keys []string) ([]Agent, error)
	// ListAgents returns all agents, ordered by cloud, ip and key.
	ListAgents(ctx context.Context) ([]Agent, error)
}
