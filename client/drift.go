package client

import (
	"context"
	"net/url"
	"strconv"

	v1 "drover/api/v1"
)

// DriftFilter selects processes, as WhyFilter does.
type DriftFilter struct {
	Namespace, Name string
	Hosts           []string
	// Selector is an expression about labels and facts of hosts.
	Selector string
	ProcessChoice
	// Stored asks no host about its running processes.
	Stored bool
	// Limit is the largest number of differences; 0 means the maximum of the server, 1000.
	Limit int
}

// Drift compares files, the specs of hosts, and running processes.
func (c *Client) Drift(ctx context.Context, f DriftFilter) (v1.DriftReport, error) {
	query := url.Values{}
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	f.ProcessChoice.set(query)
	if f.Stored {
		query.Set("live", "false")
	}
	if f.Limit <= 0 {
		f.Limit = maxPage
	}
	query.Set("limit", strconv.Itoa(f.Limit))
	var r v1.DriftReport
	err := c.do(ctx, at(v1.RouteListDrift), query, nil, &r)
	return r, err
}
