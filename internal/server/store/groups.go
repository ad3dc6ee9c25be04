package store

import (
	"context"

	"drover/internal/process"
)

// GroupHost names the owner of groups: one namespace on one agent.
type GroupHost struct {
	Agent     string
	Namespace string
}

// Groups stores the process groups that hosts should have.
type Groups interface {
	// PutGroups replaces the groups of each of the hosts, in one transaction; an empty list removes all groups.
	PutGroups(ctx context.Context, hosts []GroupHost, groups []process.Group) error
	// GetGroups calls fn for every group of the namespace on the given agents, in the order of the agents and then in
	// the order in which they were put. It skips an agent without groups.
	GetGroups(ctx context.Context, namespace string, agents []string,
		fn func(agent string, g process.Group) error) error
	// AgentGroups returns the groups of one agent, by namespace, without namespaces that have no groups.
	AgentGroups(ctx context.Context, agent string) (map[string][]process.Group, error)
	// GroupUsage returns the last reported usage of all processes of the namespace, for each of the agents. It leaves
	// out agents without a measured process.
	GroupUsage(ctx context.Context, namespace string, agents []string) (map[string]GroupUsage, error)
}

// GroupUsage is the usage of all processes of one namespace on one host.
type GroupUsage struct {
	// CPU and Mem are percent of the whole machine.
	CPU, Mem float64
	// Processes is the number of measured processes; each counts with its tree.
	Processes int
}
