package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Request asks for one operation on processes.
type Request struct {
	// Op is start, stop, restart, reload, kill, host, unhost, retry, register, update or unregister.
	Op      string   `json:"op"`
	Targets []Target `json:"targets"`
	// Spec is how the processes are to be run; nil is what each host has stored. Register and update need one.
	Spec *Spec `json:"spec,omitempty"`
	// HostTimeout is how many seconds each host has to take it: one that has not by then is agent-unavailable, and does
	// not begin it later. 0 leaves that to the server.
	HostTimeout int `json:"host_timeout_seconds,omitempty"`
}

// Target is one process on some hosts.
type Target struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Hosts are ids or cloud:ip; empty is every host that knows the process.
	Hosts []string `json:"hosts,omitempty"`
}

// Operation is a task: what was asked for in one call, and how far it is.
type Operation struct {
	ID string `json:"id"`
	// Op and Subject are of the first request; Requests counts them.
	Op       string `json:"op"`
	Subject  string `json:"subject"`
	Requests int    `json:"requests"`
	App      string `json:"app"`
	User     string `json:"user"`
	// RequestID finds the call in the audit record.
	RequestID string    `json:"request_id"`
	CreatedAt time.Time `json:"created_at"`
	// State is "running", or "done" when every target has its outcome.
	State  string `json:"state"`
	Counts Counts `json:"counts"`
}

// Done reports whether every target has its outcome.
func (o *Operation) Done() bool { return o.State == "done" }

// Counts tells how many targets there are, and what became of them.
type Counts struct {
	Targets int `json:"targets"`
	OK      int `json:"ok"`
	Failed  int `json:"failed"`
	Pending int `json:"pending"`
}

// Result is what became of one process on one host.
type Result struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Host is as the caller named it.
	Host string `json:"host"`
	Op   string `json:"op"`
	// Outcome is "pending", "ok", or why it failed: agent-unavailable, already-running, not-running, illegal-op,
	// check-failed, already-registered or failed. Message says more. A start of what runs and a stop or kill of what is
	// registered and does not run are ok; their messages say "was already running" and "was already stopped".
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	// Hosted is the hosting flag after the operation.
	Hosted bool `json:"hosted"`
}

// Failed reports whether it ended, and not well.
func (r *Result) Failed() bool { return r.Outcome != "ok" && r.Outcome != "pending" }

// Submit begins an operation. When it returns, the server has it on disk and will carry it out.
func (c *Client) Submit(ctx context.Context, r Request) (Operation, error) {
	var o Operation
	err := c.within(ctx, submitTime, http.MethodPost, "/operations", nil, r, &o)
	return o, err
}

// Operation returns an operation. With a wait it blocks until the operation is done or that time (at most 60 s) has
// passed.
func (c *Client) Operation(ctx context.Context, id string, wait time.Duration) (Operation, error) {
	query := url.Values{}
	if wait > 0 {
		query.Set("wait", strconv.FormatFloat(wait.Seconds(), 'f', -1, 64))
	}
	var o Operation
	err := c.within(ctx, answerTime+wait, http.MethodGet, "/operations/"+segment(id), query, nil, &o)
	return o, err
}

// OperationFilter chooses operations. An empty field matches all.
type OperationFilter struct {
	// State is "running" or "done".
	State string
	App   string
	// Limit bounds the answer; 0 does not.
	Limit int
}

// Operations lists operations, newest first.
func (c *Client) Operations(ctx context.Context, f OperationFilter) iter.Seq2[Operation, error] {
	query := url.Values{}
	set(query, "state", f.State)
	set(query, "app", f.App)
	return pages[Operation](ctx, c, "/operations", query, f.Limit)
}

// ResultFilter chooses results.
type ResultFilter struct {
	// Outcome is "ok", "failed" (of any kind), "pending" or empty for all.
	Outcome string
	// Limit bounds the answer; 0 does not.
	Limit int
}

// Results lists what became of each target of an operation, in the order in which they were asked for.
func (c *Client) Results(ctx context.Context, id string, f ResultFilter) iter.Seq2[Result, error] {
	query := url.Values{}
	set(query, "outcome", f.Outcome)
	return pages[Result](ctx, c, "/operations/"+segment(id)+"/results", query, f.Limit)
}
