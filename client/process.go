package client

import (
	"context"
	"iter"
	"net/url"

	v1 "drover/api/v1"
)

// ProcessFilter selects processes. An empty field matches all. Namespaces and names are patterns: * matches any text, ?
// one character.
type ProcessFilter struct {
	Namespace string
	Name      string
	// Hosts are ids or cloud:ip, or patterns of either. States are values of Process.State.
	Hosts  []string
	States []string
	// Selector is an expression about labels and facts of hosts, ProcessSelector one about labels of processes. Version
	// is a pattern for the version of a running process.
	Selector, ProcessSelector, Version string
	// Spec asks for the specs.
	Spec bool
	// Limit is the largest number of processes; 0 means no limit.
	Limit int
}

// set sets the parameters that lists and counts take.
func (f *ProcessFilter) set(query url.Values) {
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	set(query, "process_selector", f.ProcessSelector)
	set(query, "version", f.Version)
}

// Processes lists processes, ordered by namespace and name.
func (c *Client) Processes(ctx context.Context, f ProcessFilter) iter.Seq2[Process, error] {
	query := url.Values{}
	f.set(query)
	set(query, "state", f.States...)
	if f.Spec {
		query.Set("spec", "true")
	}
	return pages[Process](ctx, c, at(v1.RouteListProcesses), query, f.Limit)
}

// Process returns one process, with its spec, on all hosts that know it.
func (c *Client) Process(ctx context.Context, namespace, name string) ([]Process, error) {
	return Collect(pages[Process](ctx, c, at(v1.RouteGetProcess, namespace, name), url.Values{}, 0))
}

// AgentFilter selects hosts. An empty field matches all.
type AgentFilter struct {
	// Hosts are ids or cloud:ip, or patterns of either.
	Hosts []string
	// Selector is an expression about labels and facts. Search is a text in a name, a label or a fact, in any case.
	Selector, Search string
	// State is HostOnline or HostAway.
	State string
	// Limit is the largest number of hosts; 0 means no limit.
	Limit int
}

// Agents lists hosts, ordered by cloud area and address.
func (c *Client) Agents(ctx context.Context, f AgentFilter) iter.Seq2[Agent, error] {
	query := url.Values{}
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	set(query, "search", f.Search)
	set(query, "state", f.State)
	return pages[Agent](ctx, c, at(v1.RouteListAgents), query, f.Limit)
}

// LabelAgents sets and removes labels of hosts, of all or of none. It returns the ids of the hosts.
func (c *Client) LabelAgents(ctx context.Context, r LabelRequest) ([]string, error) {
	var done v1.Labelled
	err := c.do(ctx, at(v1.RouteLabelAgents), nil, r, &done)
	return done.Hosts, err
}

// CountProcesses counts the processes that match the filter; it ignores States and Limit of the filter.
func (c *Client) CountProcesses(ctx context.Context, f ProcessFilter) (ProcessCounts, error) {
	query := url.Values{}
	f.set(query)
	var n ProcessCounts
	err := c.do(ctx, at(v1.RouteCountProcesses), query, nil, &n)
	return n, err
}
