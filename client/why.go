package client

import (
	"context"
	"net/url"
	"strconv"
)

// Why tells why processes are as they are.
type Why struct {
	// Findings are the worst ones, up to the limit of the filter.
	Findings []Finding `json:"findings"`
	// Causes counts the first causes of all that were found, the worst and most frequent first.
	Causes []CauseCount `json:"causes"`
	// Wrong counts the processes that are not as they should be, for one of the causes that were asked for; Total all
	// that were looked at.
	Wrong int `json:"wrong"`
	Total int `json:"total"`
}

// Finding is why one process on one host is as it is.
type Finding struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      Host   `json:"host"`
	// State is empty where the host has never spoken of the process.
	State string `json:"state,omitempty"`
	// Wrong says that it is not as it should be, Severity how bad that is: critical, warning or notice.
	Wrong    bool   `json:"wrong"`
	Severity string `json:"severity"`
	Cause    Cause  `json:"cause"`
	// Further are the other causes, the worst first.
	Further []Cause `json:"further,omitempty"`
	// Then is what the host had said last, where it is away.
	Then *Cause `json:"then,omitempty"`
	// Impact is what it means for the process, as one clause.
	Impact string `json:"impact"`
}

// CauseCount is how often a cause was found, and what is known of it. Page is below the root of drover's repository.
type CauseCount struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Severity string `json:"severity"`
	Count    int    `json:"count"`
	Meaning  string `json:"meaning"`
	Remedy   string `json:"remedy"`
	Page     string `json:"page"`
}

// WhyFilter chooses processes. An empty field matches all. Namespaces, names and hosts are patterns: * is any text, ?
// any one character. A single process is also looked for on the hosts that are named and do not know it.
type WhyFilter struct {
	Namespace string
	Name      string
	Hosts     []string
	// Causes are ids, such as exit-status.
	Causes []string
	// All asks for the processes too that are as they should be, where there is something to tell of them.
	All bool
	// Limit bounds the findings; 0 is as many as a server gives, which is 1000.
	Limit int
}

// Why asks why processes are as they are.
func (c *Client) Why(ctx context.Context, f WhyFilter) (Why, error) {
	query := url.Values{}
	set(query, "namespace", f.Namespace)
	set(query, "name", f.Name)
	set(query, "host", f.Hosts...)
	set(query, "cause", f.Causes...)
	if f.All {
		query.Set("all", "true")
	}
	if f.Limit <= 0 {
		f.Limit = maxPage
	}
	query.Set("limit", strconv.Itoa(f.Limit))
	var w Why
	err := c.get(ctx, "/why", query, &w)
	return w, err
}
