package store

import "context"

// GroupHost names what groups belong to: one namespace on one agent.
type GroupHost struct {
	Agent     string
	Namespace string
}

// Group is one process group: what the processes of a namespace may use together on one host.
type Group struct {
	ID string
	// CPULimit and MemLimit are percent of the whole machine; 0 is no limit.
	CPULimit, MemLimit float64
	// CPUWeight and MemWeight are 0 or 1: whether a process's own limit counts when a victim is chosen.
	CPUWeight, MemWeight int
}

// Groups keeps the process groups.
type Groups interface {
	// PutGroups makes the groups all that each of the hosts has, in one transaction; none removes what there was.
	PutGroups(ctx context.Context, hosts []GroupHost, groups []Group) error
	// GetGroups calls fn for every group of the namespace on the given agents, in the order of the agents and then in the order
	// in which they were put. An agent without groups is skipped.
	GetGroups(ctx context.Context, namespace string, agents []string, fn func(agent string, g Group) error) error
}
