package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"

	v1 "drover/api/v1"
)

// Submit begins an operation. When it returns, the server has the operation on disk and will execute it.
func (c *Client) Submit(ctx context.Context, r v1.Request) (v1.Task, error) {
	var o v1.Task
	err := c.within(ctx, submitTime, at(v1.RouteCreateTask), nil, r, &o)
	return o, err
}

// PlanOperation returns what a request would do, after all checks of Submit and RollOut, and does nothing.
func (c *Client) PlanOperation(ctx context.Context, r v1.Request) (p v1.OperationPlan, err error) {
	err = c.do(ctx, at(v1.RouteCreateTask), url.Values{"dry_run": {"true"}}, r, &p)
	return p, err
}

// Task returns an operation. With a wait it blocks until the operation is done, or until that time (at most 60 s)
// has passed.
func (c *Client) Task(ctx context.Context, id string, wait time.Duration) (v1.Task, error) {
	query := url.Values{}
	if wait > 0 {
		query.Set("wait", strconv.FormatFloat(wait.Seconds(), 'f', -1, 64))
	}
	var o v1.Task
	err := c.within(ctx, answerTime+wait, at(v1.RouteGetTask, id), query, nil, &o)
	return o, err
}

// Cancel cancels the targets of an operation that have not begun. It does not wait for the hosts that decide
// themselves.
func (c *Client) Cancel(ctx context.Context, id string) (v1.Cancellation, error) {
	var answer v1.Cancellation
	err := c.do(ctx, at(v1.RouteCancelTask, id), nil, nil, &answer)
	return answer, err
}

// TaskFilter selects operations. An empty field matches all.
type TaskFilter struct {
	// State is "running" or "done".
	State string
	// App and User began the operation.
	App, User string
	// Op is an operation such as v1.OpRestart, and Namespace a pattern. An operation of several processes matches if
	// one of them does.
	Op, Namespace string
	// Outcome is v1.OutcomeFailed for operations with a failure, and v1.OutcomeOK for those that are done without one.
	Outcome string
	// Since bounds the time of the call; it is exclusive.
	Since time.Time
	// Hosts are ids or cloud:ip, or patterns of either: operations with a target there. Selector is an expression about
	// labels and facts of hosts.
	Hosts    []string
	Selector string
	// Limit is the largest number of operations; 0 means no limit.
	Limit int
}

func (f *TaskFilter) query() url.Values {
	query := url.Values{}
	set(query, "state", f.State)
	set(query, "app", f.App)
	set(query, "user", f.User)
	set(query, "op", f.Op)
	set(query, "namespace", f.Namespace)
	set(query, "outcome", f.Outcome)
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return query
}

// Tasks lists operations, newest first.
func (c *Client) Tasks(ctx context.Context, f TaskFilter) iter.Seq2[v1.Task, error] {
	return pages[v1.Task](ctx, c, at(v1.RouteListTasks), f.query(), f.Limit)
}

// TaskPage returns one page of Tasks, in the way of HostPage.
func (c *Client) TaskPage(ctx context.Context, f TaskFilter, cursor string) (Page[v1.Task], error) {
	return page[v1.Task](ctx, c, at(v1.RouteListTasks), f.query(), f.Limit, cursor)
}

// ResultFilter selects results.
type ResultFilter struct {
	// Outcome is v1.OutcomeOK, v1.OutcomeFailed (any kind of failure), v1.OutcomePending, or empty for all results.
	Outcome string
	// Limit is the largest number of results; 0 means no limit.
	Limit int
}

// Results lists the result of each target of an operation, in the order of the request.
func (c *Client) Results(ctx context.Context, id string, f ResultFilter) iter.Seq2[v1.Result, error] {
	query := url.Values{}
	set(query, "outcome", f.Outcome)
	return pages[v1.Result](ctx, c, at(v1.RouteListResults, id), query, f.Limit)
}

// ResultPage returns one page of Results, in the way of HostPage.
func (c *Client) ResultPage(ctx context.Context, id string, f ResultFilter, cursor string) (Page[v1.Result], error) {
	query := url.Values{}
	set(query, "outcome", f.Outcome)
	return page[v1.Result](ctx, c, at(v1.RouteListResults, id), query, f.Limit, cursor)
}
