package client

import (
	"context"
	"iter"
	"net/url"

	v1 "drover/api/v1"
)

// RollOut begins an operation that spreads over its hosts in batches; the request must have a Rollout. When it returns,
// the server has the rollout on disk and will carry it out.
func (c *Client) RollOut(ctx context.Context, r v1.Request) (v1.Rollout, error) {
	var answer v1.Rollout
	err := c.within(ctx, submitTime, at(v1.RouteCreateTask), nil, r, &answer)
	return answer, err
}

// Rollout returns a rollout with its hosts.
func (c *Client) Rollout(ctx context.Context, id string) (v1.Rollout, error) {
	var r v1.Rollout
	err := c.do(ctx, at(v1.RouteGetRollout, id), nil, nil, &r)
	return r, err
}

// RolloutFilter selects rollouts. An empty field matches all.
type RolloutFilter struct {
	// State is scheduled, running, held, paused, done or aborted, or v1.RolloutActive for all but the last two.
	State string
	// Namespace is a pattern that one of the processes must match.
	Namespace string
	// Hosts are ids or cloud:ip, or patterns of either: rollouts that have one of these hosts. Selector is an
	// expression about labels and facts of hosts.
	Hosts    []string
	Selector string
	// Limit is the largest number of rollouts; 0 means no limit.
	Limit int
}

func (f *RolloutFilter) query() url.Values {
	query := url.Values{}
	set(query, "state", f.State)
	set(query, "namespace", f.Namespace)
	set(query, "host", f.Hosts...)
	set(query, "selector", f.Selector)
	return query
}

// Rollouts lists rollouts without their hosts, newest first.
func (c *Client) Rollouts(ctx context.Context, f RolloutFilter) iter.Seq2[v1.Rollout, error] {
	return pages[v1.Rollout](ctx, c, at(v1.RouteListRollouts), f.query(), f.Limit)
}

// RolloutPage returns one page of Rollouts, in the way of HostPage.
func (c *Client) RolloutPage(ctx context.Context, f RolloutFilter, cursor string) (Page[v1.Rollout], error) {
	return page[v1.Rollout](ctx, c, at(v1.RouteListRollouts), f.query(), f.Limit, cursor)
}

// PauseRollout has a running rollout begin no further batch.
func (c *Client) PauseRollout(ctx context.Context, id string) (v1.Rollout, error) {
	return c.changeRollout(ctx, v1.RoutePauseRollout, id, nil)
}

// ResumeRollout has a paused rollout go on, and accepts its failed hosts.
func (c *Client) ResumeRollout(ctx context.Context, id string) (v1.Rollout, error) {
	return c.changeRollout(ctx, v1.RouteResumeRollout, id, nil)
}

// AbortRollout ends a rollout, and cancels what has not begun.
func (c *Client) AbortRollout(ctx context.Context, id string) (v1.Rollout, error) {
	return c.changeRollout(ctx, v1.RouteAbortRollout, id, nil)
}

// RetryRollout puts the failed hosts of a paused or done rollout into new batches; with away only the hosts that were
// away.
func (c *Client) RetryRollout(ctx context.Context, id string, away bool) (v1.Rollout, error) {
	return c.changeRollout(ctx, v1.RouteRetryRollout, id, v1.RolloutRetry{Away: away})
}

// PaceRollout has a rollout go through the hosts that wait with other batches and times: the fields batch, bake, pause,
// max_failures and max_unavailable of RolloutPlan by their names in JSON, such as "batch": "10%". The others stay.
func (c *Client) PaceRollout(ctx context.Context, id string, plan map[string]string) (v1.Rollout, error) {
	query := url.Values{}
	for name, value := range plan {
		query.Set(name, value)
	}
	var r v1.Rollout
	err := c.do(ctx, at(v1.RoutePaceRollout, id), query, nil, &r)
	return r, err
}

// ApproveRollout has a rollout go on that waits for the approval of a person. The caller must be a person who did not
// begin it.
func (c *Client) ApproveRollout(ctx context.Context, id string) (v1.Rollout, error) {
	return c.changeRollout(ctx, v1.RouteApproveRollout, id, nil)
}

// UndoRollout begins a rollout that takes the rollout of an apply back, and returns it. It goes to all hosts at once,
// unless plan has fields of RolloutPlan by their names in JSON, such as "batch": "10%".
func (c *Client) UndoRollout(ctx context.Context, id string, plan map[string]string) (v1.Rollout, error) {
	query := url.Values{}
	for name, value := range plan {
		query.Set(name, value)
	}
	var r v1.Rollout
	err := c.within(ctx, submitTime, at(v1.RouteUndoRollout, id), query, nil, &r)
	return r, err
}

func (c *Client) changeRollout(ctx context.Context, route, id string, body any) (v1.Rollout, error) {
	var r v1.Rollout
	err := c.do(ctx, at(route, id), nil, body, &r)
	return r, err
}

// CreateSchedule creates a schedule: an operation that the servers begin at the times of a timetable.
func (c *Client) CreateSchedule(ctx context.Context, r v1.ScheduleRequest) (v1.OperationSchedule, error) {
	return c.callSchedule(ctx, at(v1.RouteCreateSchedule), r)
}

// Schedules lists the schedules of the app, or of all apps for an administrator, ordered by name.
func (c *Client) Schedules(ctx context.Context) ([]v1.OperationSchedule, error) {
	var all v1.Page[v1.OperationSchedule] // there is but one
	err := c.do(ctx, at(v1.RouteListSchedules), nil, nil, &all)
	return all.Items, err
}

// Schedule returns a schedule with its latest runs.
func (c *Client) Schedule(ctx context.Context, name string) (v1.OperationSchedule, error) {
	return c.callSchedule(ctx, at(v1.RouteGetSchedule, name), nil)
}

// PauseSchedule has a schedule begin no run until somebody resumes it.
func (c *Client) PauseSchedule(ctx context.Context, name string) (v1.OperationSchedule, error) {
	return c.callSchedule(ctx, at(v1.RoutePauseSchedule, name), nil)
}

// ResumeSchedule has a paused schedule go on with its next time.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (v1.OperationSchedule, error) {
	return c.callSchedule(ctx, at(v1.RouteResumeSchedule, name), nil)
}

// RunSchedule begins a run now, with the rights of the caller.
func (c *Client) RunSchedule(ctx context.Context, name string) (v1.OperationSchedule, error) {
	var s v1.OperationSchedule
	err := c.within(ctx, submitTime, at(v1.RouteRunSchedule, name), nil, nil, &s)
	return s, err
}

// RemoveSchedule removes a schedule. A run that goes on is not affected.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	return c.do(ctx, at(v1.RouteRemoveSchedule, name), nil, nil, nil)
}

func (c *Client) callSchedule(ctx context.Context, to place, body any) (v1.OperationSchedule, error) {
	var s v1.OperationSchedule
	err := c.do(ctx, to, nil, body, &s)
	return s, err
}
