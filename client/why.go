package client

import (
	"context"
	"net/url"
	"strconv"

	v1 "drover/api/v1"
)

// WhyFilter selects processes. An empty field matches all. Namespaces, names and hosts are patterns: * matches any
// text, ? one character. For a single process, the answer includes the named hosts that do not know it.
type WhyFilter struct {
	Namespace string
	Name      string
	Hosts     []string
	// Selector is an expression about labels and facts of hosts.
	Selector string
	ProcessChoice
	// Causes are ids, such as exit-status.
	Causes []string
	// All asks also for processes that are as they should be, if they have a cause.
	All bool
	// Limit is the largest number of findings; 0 means the maximum of the server, 1000.
	Limit int
}

// Why explains the states of processes.
func (c *Client) Why(ctx context.Context, f WhyFilter) (v1.Why, error) {
	query := url.Values{}
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	f.ProcessChoice.set(query)
	set(query, "cause", f.Causes...)
	if f.All {
		query.Set("all", "true")
	}
	if f.Limit <= 0 {
		f.Limit = maxPage
	}
	query.Set("limit", strconv.Itoa(f.Limit))
	var w v1.Why
	err := c.do(ctx, at(v1.RouteListWhy), query, nil, &w)
	return w, err
}
