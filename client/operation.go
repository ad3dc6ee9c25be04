package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The operations that a Request can ask for.
const (
	OpStart      = "start"
	OpStop       = "stop"
	OpRestart    = "restart"
	OpReload     = "reload"
	OpKill       = "kill"
	OpHost       = "host"
	OpUnhost     = "unhost"
	OpRetry      = "retry"
	OpRegister   = "register"
	OpUpdate     = "update"
	OpUnregister = "unregister"
)

// Request asks for one operation on one or more processes.
type Request struct {
	// Op is one of the constants above, such as OpStart.
	Op      string   `json:"op"`
	Targets []Target `json:"targets"`
	// Spec describes the processes; if it is nil, each host uses its stored spec. Register and update need a spec.
	Spec *Spec `json:"spec,omitempty"`
	// HostTimeout is the time in seconds in which each host must accept the operation. After that time the result of
	// the host is agent-unavailable, and the host does not begin the operation later. If it is 0, the server chooses.
	HostTimeout int `json:"host_timeout_seconds,omitempty"`
}

// Target is one process on some hosts.
type Target struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Hosts are ids or cloud:ip; an empty list means every host that knows the process.
	Hosts []string `json:"hosts,omitempty"`
}

// Operation is a task: the request of one call, and its progress.
type Operation struct {
	ID string `json:"id"`
	// Op and Subject describe the first request; Requests is the number of requests.
	Op       string `json:"op"`
	Subject  string `json:"subject"`
	Requests int    `json:"requests"`
	App      string `json:"app"`
	User     string `json:"user"`
	// RequestID identifies the call in the audit log.
	RequestID string    `json:"request_id"`
	CreatedAt time.Time `json:"created_at"`
	// State is "running", or "done" if every target has its outcome.
	State  string `json:"state"`
	Counts Counts `json:"counts"`
}

// Done reports whether every target has its outcome.
func (o *Operation) Done() bool { return o.State == "done" }

// Counts is the number of targets, in total and by outcome.
type Counts struct {
	Targets int `json:"targets"`
	OK      int `json:"ok"`
	Failed  int `json:"failed"`
	Pending int `json:"pending"`
}

// Result is the result for one process on one host.
type Result struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Host is the host in the caller's spelling.
	Host string `json:"host"`
	Op   string `json:"op"`
	// Outcome is "pending", "ok", or the kind of failure: agent-unavailable, already-running, not-running, illegal-op,
	// check-failed, already-registered or failed. Message says more. A start of a running process is ok, with the
	// message "was already running". A stop or kill of a registered process that does not run is ok, with the message
	// "was already stopped".
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
	// Hosted is the hosting flag after the operation.
	Hosted bool `json:"hosted"`
}

// Failed reports whether the operation on this target has failed.
func (r *Result) Failed() bool { return r.Outcome != "ok" && r.Outcome != "pending" }

// Submit begins an operation. When it returns, the server has the operation on disk and will execute it.
func (c *Client) Submit(ctx context.Context, r Request) (Operation, error) {
	var o Operation
	err := c.within(ctx, submitTime, http.MethodPost, "/operations", nil, r, &o)
	return o, err
}

// Operation returns an operation. With a wait it blocks until the operation is done, or until that time (at most 60 s)
// has passed.
func (c *Client) Operation(ctx context.Context, id string, wait time.Duration) (Operation, error) {
	query := url.Values{}
	if wait > 0 {
		query.Set("wait", strconv.FormatFloat(wait.Seconds(), 'f', -1, 64))
	}
	var o Operation
	err := c.within(ctx, answerTime+wait, http.MethodGet, "/operations/"+segment(id), query, nil, &o)
	return o, err
}

// OperationFilter selects operations. An empty field matches all.
type OperationFilter struct {
	// State is "running" or "done".
	State string
	App   string
	// Limit is the largest number of operations; 0 means no limit.
	Limit int
}

// Operations lists operations, newest first.
func (c *Client) Operations(ctx context.Context, f OperationFilter) iter.Seq2[Operation, error] {
	query := url.Values{}
	set(query, "state", f.State)
	set(query, "app", f.App)
	return pages[Operation](ctx, c, "/operations", query, f.Limit)
}

// ResultFilter selects results.
type ResultFilter struct {
	// Outcome is "ok", "failed" (any kind of failure), "pending", or empty for all results.
	Outcome string
	// Limit is the largest number of results; 0 means no limit.
	Limit int
}

// Results lists the result of each target of an operation, in the order of the request.
func (c *Client) Results(ctx context.Context, id string, f ResultFilter) iter.Seq2[Result, error] {
	query := url.Values{}
	set(query, "outcome", f.Outcome)
	return pages[Result](ctx, c, "/operations/"+segment(id)+"/results", query, f.Limit)
}
