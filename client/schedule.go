package client

import (
	"context"

	v1 "drover/api/v1"
)

// CreateSchedule creates a schedule: an operation that the servers begin at the times of a timetable.
func (c *Client) CreateSchedule(ctx context.Context, r ScheduleRequest) (OperationSchedule, error) {
	return c.callSchedule(ctx, at(v1.RouteCreateSchedule), r)
}

// Schedules lists the schedules of the app, or of all apps for an administrator, ordered by name.
func (c *Client) Schedules(ctx context.Context) ([]OperationSchedule, error) {
	var all v1.Page[OperationSchedule] // there is but one
	err := c.do(ctx, at(v1.RouteListSchedules), nil, nil, &all)
	return all.Items, err
}

// Schedule returns a schedule with its latest runs.
func (c *Client) Schedule(ctx context.Context, name string) (OperationSchedule, error) {
	return c.callSchedule(ctx, at(v1.RouteGetSchedule, name), nil)
}

// PauseSchedule has a schedule begin no run until somebody resumes it.
func (c *Client) PauseSchedule(ctx context.Context, name string) (OperationSchedule, error) {
	return c.callSchedule(ctx, at(v1.RoutePauseSchedule, name), nil)
}

// ResumeSchedule has a paused schedule go on with its next time.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (OperationSchedule, error) {
	return c.callSchedule(ctx, at(v1.RouteResumeSchedule, name), nil)
}

// RunSchedule begins a run now, with the rights of the caller.
func (c *Client) RunSchedule(ctx context.Context, name string) (OperationSchedule, error) {
	var s OperationSchedule
	err := c.within(ctx, submitTime, at(v1.RouteRunSchedule, name), nil, nil, &s)
	return s, err
}

// RemoveSchedule removes a schedule. A run that goes on is not affected.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	return c.do(ctx, at(v1.RouteRemoveSchedule, name), nil, nil, nil)
}

func (c *Client) callSchedule(ctx context.Context, to place, body any) (OperationSchedule, error) {
	var s OperationSchedule
	err := c.do(ctx, to, nil, body, &s)
	return s, err
}
