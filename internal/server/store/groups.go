package store

import (
	"context"

	"drover/internal/process"
)

// GroupHost names what groups belong to: one namespace on one agent.
type GroupHost struct {
	Agent     string
	Namespace string
}

// Groups keeps the process groups that the hosts are to have.
type Groups interface {
	// PutGroups makes the groups all that each of the hosts has, in one transaction; none removes what there was.
	PutGroups(ctx context.Context, hosts []GroupHost, groups []process.Group) error
	// GetGroups calls fn for every group of the namespace on the given agents, in the order of the agents and then in
	// the order in which they were put. An agent without groups is skipped.
	GetGroups(ctx context.Context, namespace string, agents []string,
		fn func(agent string, g process.Group) error) error
	// AgentGroups returns the groups of one agent, by namespace. A namespace without groups is left out.
	AgentGroups(ctx context.Context, agent string) (map[string][]process.Group, error)
	// GroupUsage returns what the processes of the namespace were last seen to use together on each of the agents. An
	// agent that has none that was measured is left out.
	GroupUsage(ctx context.Context, namespace string, agents []string) (map[string]GroupUsage, error)
}

// GroupUsage is what the processes of one namespace use together on one host.
type GroupUsage struct {
	// CPU and Mem are percent of the whole machine.
	CPU, Mem float64
	// Processes is how many were measured, each with its tree.
	Processes int
}
