package client

import (
	"context"
	"iter"
	"math"
	"net/url"
	"strconv"
	"time"

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

// ProcessesAt lists the processes as they were at a moment of the past, by the clock of each host, ordered by namespace
// and name. It ignores Spec and Limit of the filter, and a server refuses ProcessSelector.
func (c *Client) ProcessesAt(ctx context.Context, f ProcessFilter, moment time.Time) ([]Process, Past, error) {
	query := url.Values{}
	f.set(query)
	set(query, "state", f.States...)
	query.Set("at", moment.UTC().Format(time.RFC3339Nano))
	query.Set("limit", strconv.Itoa(maxPage))
	var all []Process
	var past Past
	for {
		var part v1.PastPage
		if err := c.do(ctx, at(v1.RouteListProcesses), query, nil, &part); err != nil {
			return nil, Past{}, err
		}
		all = append(all, part.Items...)
		if math.Abs(part.Past.ClockSeconds) < math.Abs(past.ClockSeconds) {
			part.Past.ClockSeconds = past.ClockSeconds
		}
		if past = part.Past; part.NextCursor == "" {
			return all, past, nil
		}
		query.Set("cursor", part.NextCursor)
	}
}

// ChangesFilter selects changes. An empty field matches all, except From.
type ChangesFilter struct {
	// From and To are moments by the clock of each host; a zero To is now.
	From, To time.Time
	// Processes are names of processes, NAMESPACE/NAME, or patterns of them.
	Processes []string
	// Hosts are ids or cloud:ip, or patterns of either. Selector is an expression about labels and facts.
	Hosts    []string
	Selector string
	// Limit is the largest length of each list; 0 stands for 100.
	Limit int
}

// Changes compares two moments.
func (c *Client) Changes(ctx context.Context, f ChangesFilter) (Changes, error) {
	query := url.Values{}
	set(query, "process", f.Processes...)
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	query.Set("from", f.From.UTC().Format(time.RFC3339Nano))
	if !f.To.IsZero() {
		query.Set("to", f.To.UTC().Format(time.RFC3339Nano))
	}
	if f.Limit > 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	var found Changes
	err := c.do(ctx, at(v1.RouteListChanges), query, nil, &found)
	return found, err
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
