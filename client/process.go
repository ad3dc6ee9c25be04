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

// ProcessChoice selects processes by what they are. An empty field matches all.
type ProcessChoice struct {
	// ProcessSelector is an expression about labels of processes.
	ProcessSelector string
	// Version is a pattern for the version of a running process.
	Version string
	// States are values of Process.State.
	States []string
}

func (w *ProcessChoice) set(query url.Values) {
	set(query, "process_selector", w.ProcessSelector)
	set(query, "version", w.Version)
	set(query, "state", w.States...)
}

// ProcessFilter selects processes. An empty field matches all. Namespaces and names are patterns: * matches any text, ?
// one character.
type ProcessFilter struct {
	Namespace string
	Name      string
	// Hosts are ids or cloud:ip, or patterns of either.
	Hosts []string
	// Selector is an expression about labels and facts of hosts.
	Selector string
	ProcessChoice
	// Causes are ids of causes: they select processes that are not as they should be and have one of these causes.
	Causes []string
	// Selection is the id of a Selection of the caller: only its processes.
	Selection string
	// Stale selects processes whose host is away (true) or not (false), and Hosted those that drover watches or not.
	Stale, Hosted *bool
	// Search is a text in NAMESPACE/NAME, or in the address or an id of the host, in any case.
	Search string
	// Spec asks for the specs.
	Spec bool
	// Sort is the order: "process", which is the default, "host", "state", "-since" for the latest change first, or
	// "-cpu" or "-memory" for the greatest use first. For groups it is "key", which is the default, "-total" or
	// "-wrong".
	Sort string
	// Limit is the largest number of processes; 0 means no limit.
	Limit int
}

// set sets the parameters that lists and counts take.
func (f *ProcessFilter) set(query url.Values) {
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	f.ProcessChoice.set(query)
}

// setAll sets the parameters that lists, groups, overviews and selections take.
func (f *ProcessFilter) setAll(query url.Values) {
	f.set(query)
	set(query, "cause", f.Causes...)
	set(query, "selection", f.Selection)
	set(query, "search", f.Search)
	set(query, "sort", f.Sort)
	for name, value := range map[string]*bool{"stale": f.Stale, "hosted": f.Hosted} {
		if value != nil {
			query.Set(name, strconv.FormatBool(*value))
		}
	}
	if f.Spec {
		query.Set("spec", "true")
	}
}

// Overview counts the processes that match the filter, groups those that are not as they should be by their causes, and
// counts hosts. It ignores Spec, Sort and Limit of the filter. The counts are some seconds old at most.
func (c *Client) Overview(ctx context.Context, f ProcessFilter) (v1.Overview, error) {
	query := url.Values{}
	f.Spec, f.Sort = false, ""
	f.setAll(query)
	var v v1.Overview
	err := c.do(ctx, at(v1.RouteOverview), query, nil, &v)
	return v, err
}

// ProcessPage returns one page of the processes that match the filter, of Limit processes, and how many match in all.
// The cursor is that of the page before; empty for the first page. next is empty on the last page.
func (c *Client) ProcessPage(ctx context.Context, f ProcessFilter, cursor string) (rows []v1.Process, next string,
	total int, err error,
) {
	page, err := pageOf[v1.Process](ctx, c, f, cursor, "")
	if err != nil {
		return nil, "", 0, err
	}
	return page.Items, page.NextCursor, *page.Total, nil
}

// GroupPage is ProcessPage for groups of processes: by is "process", "host", "area", "namespace", "version", "cause",
// "state", or "label:KEY" for a label or fact of the hosts. total counts groups.
func (c *Client) GroupPage(ctx context.Context, by string, f ProcessFilter, cursor string) (groups []v1.ProcessGroup,
	next string, total int, err error,
) {
	f.Spec = false
	page, err := pageOf[v1.ProcessGroup](ctx, c, f, cursor, by)
	if err != nil {
		return nil, "", 0, err
	}
	return page.Items, page.NextCursor, *page.Total, nil
}

// pageOf reads a page with its total.
func pageOf[T any](ctx context.Context, c *Client, f ProcessFilter, cursor, group string) (page v1.Page[T], err error) {
	query := url.Values{"count": {"true"}}
	f.setAll(query)
	set(query, "cursor", cursor)
	set(query, "group", group)
	if f.Limit > 0 {
		query.Set("limit", strconv.Itoa(min(f.Limit, maxPage)))
	}
	if err = c.do(ctx, at(v1.RouteListProcesses), query, nil, &page); err == nil && page.Total == nil {
		page.Total = new(int)
	}
	return page, err
}

// Select holds the processes that match the filter now, or those that the request names, for 15 minutes. An operation
// that names the selection is for exactly these processes. It ignores Spec, Sort and Limit of the filter.
func (c *Client) Select(ctx context.Context, f ProcessFilter, r v1.SelectionRequest) (v1.Selection, error) {
	query := url.Values{}
	f.Spec, f.Sort = false, ""
	f.setAll(query)
	var s v1.Selection
	err := c.within(ctx, submitTime, at(v1.RouteCreateSelection), query, r, &s)
	return s, err
}

// Selection returns a selection as it was made. It fails with status 404 after its 15 minutes.
func (c *Client) Selection(ctx context.Context, id string) (v1.Selection, error) {
	var s v1.Selection
	err := c.do(ctx, at(v1.RouteGetSelection, id), nil, nil, &s)
	return s, err
}

// Processes lists processes, ordered by namespace and name.
func (c *Client) Processes(ctx context.Context, f ProcessFilter) iter.Seq2[v1.Process, error] {
	query := url.Values{}
	f.setAll(query)
	return pages[v1.Process](ctx, c, at(v1.RouteListProcesses), query, f.Limit)
}

// ProcessesAt lists the processes as they were at a moment of the past, by the clock of each host, ordered by namespace
// and name. It ignores Spec and Limit of the filter, and a server refuses ProcessSelector.
func (c *Client) ProcessesAt(ctx context.Context, f ProcessFilter, moment time.Time) ([]v1.Process, v1.Past, error) {
	query := url.Values{}
	f.set(query)
	query.Set("at", moment.UTC().Format(time.RFC3339Nano))
	query.Set("limit", strconv.Itoa(maxPage))
	var all []v1.Process
	var past v1.Past
	for {
		var part v1.PastPage
		if err := c.do(ctx, at(v1.RouteListProcesses), query, nil, &part); err != nil {
			return nil, v1.Past{}, err
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
func (c *Client) Changes(ctx context.Context, f ChangesFilter) (v1.Changes, error) {
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
	var found v1.Changes
	err := c.do(ctx, at(v1.RouteListChanges), query, nil, &found)
	return found, err
}

// Process returns one process, with its spec, on all hosts that know it.
func (c *Client) Process(ctx context.Context, namespace, name string) ([]v1.Process, error) {
	return Collect(pages[v1.Process](ctx, c, at(v1.RouteGetProcess, namespace, name), url.Values{}, 0))
}

// UsageHistory returns what a process has used on a host, which is an id or cloud:ip. last is one of the windows of
// package v1, such as UsageHour; empty stands for an hour. A host that does not answer is no error: see Problem.
func (c *Client) UsageHistory(ctx context.Context, namespace, name, host, last string) (v1.UsageHistory, error) {
	query := url.Values{}
	set(query, "last", last)
	var v v1.UsageHistory
	err := c.do(ctx, at(v1.RouteReadUsage, namespace, name, host), query, nil, &v)
	return v, err
}

// HostFilter selects hosts. An empty field matches all.
type HostFilter struct {
	// Hosts are ids or cloud:ip, or patterns of either.
	Hosts []string
	// Selector is an expression about labels and facts. Search is a text in a name, a label or a fact, in any case.
	Selector, Search string
	// State is HostOnline or HostAway.
	State string
	// Area is the number of a cloud area, and Build a pattern of versions of the agent.
	Area, Build string
	// Proxy is the name of a proxy, or a pattern of names: only hosts in the areas of these proxies. Policy is "none"
	// or "limited": only hosts without or with a policy of their owner.
	Proxy, Policy string
	// Limit is the largest number of hosts; 0 means no limit.
	Limit int
}

// Hosts lists hosts, ordered by cloud area and address.
func (c *Client) Hosts(ctx context.Context, f HostFilter) iter.Seq2[v1.JoinedHost, error] {
	return pages[v1.JoinedHost](ctx, c, at(v1.RouteListHosts), f.query(), f.Limit)
}

func (f *HostFilter) query() url.Values {
	query := url.Values{}
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	set(query, "search", f.Search)
	set(query, "state", f.State)
	set(query, "area", f.Area)
	set(query, "build", f.Build)
	set(query, "proxy", f.Proxy)
	set(query, "policy", f.Policy)
	return query
}

// HostPage returns one page of Hosts, of at most f.Limit hosts, from 1 to 1000. An empty cursor is the first page.
func (c *Client) HostPage(ctx context.Context, f HostFilter, cursor string) (Page[v1.JoinedHost], error) {
	return page[v1.JoinedHost](ctx, c, at(v1.RouteListHosts), f.query(), f.Limit, cursor)
}

// CountHosts counts the hosts that match the filter; it ignores Limit of the filter. Unless groupBy is empty, it also
// counts them by the values of this label or fact.
func (c *Client) CountHosts(ctx context.Context, f HostFilter, groupBy string) (v1.HostTotals, error) {
	query := f.query()
	set(query, "group", groupBy)
	var n v1.HostTotals
	err := c.do(ctx, at(v1.RouteCountHosts), query, nil, &n)
	return n, err
}

// LabelHosts sets and removes labels of hosts, of all or of none.
func (c *Client) LabelHosts(ctx context.Context, r v1.LabelRequest) (done v1.Labelled, err error) {
	err = c.do(ctx, at(v1.RouteLabelHosts), nil, r, &done)
	return done, err
}

// PlanLabels returns what LabelHosts would do, after all its checks, and does nothing.
func (c *Client) PlanLabels(ctx context.Context, r v1.LabelRequest) (plan v1.Labelled, err error) {
	err = c.do(ctx, at(v1.RouteLabelHosts), url.Values{"dry_run": {"true"}}, r, &plan)
	return plan, err
}

// CountProcesses counts the processes that match the filter; it ignores States and Limit of the filter.
func (c *Client) CountProcesses(ctx context.Context, f ProcessFilter) (v1.ProcessCounts, error) {
	query := url.Values{}
	f.States = nil
	f.set(query)
	var n v1.ProcessCounts
	err := c.do(ctx, at(v1.RouteCountProcesses), query, nil, &n)
	return n, err
}
