package apiv1

import (
	"context"
	"errors"
	"net/http"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

func viewOperation(t store.TaskSummary) v1.Operation {
	v := v1.Operation{
		ID: t.ID, Op: string(t.Op), Subject: t.Process.String(), Requests: t.Requests, App: t.App, User: t.User,
		RequestID: t.RequestID, Selector: t.Selector, Schedule: t.Schedule,
		CreatedAt: t.Created, State: v1.OperationDone,
		Counts: v1.Counts{Targets: t.Keys, OK: t.Keys - t.Open - t.Failed, Failed: t.Failed, Pending: t.Open},
	}
	if t.Open > 0 {
		v.State = v1.OperationRunning
	}
	return v
}

// listOperations lists the tasks that the caller may see, newest first.
func (h *Handler) listOperations(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.TaskFilter{App: p.text("app")}
	if state := p.choice("state", v1.OperationRunning, v1.OperationDone); state != "" {
		over := state == v1.OperationDone
		f.Done = &over
	}
	var after int64
	limit, err := p.page(&after)
	if err != nil {
		return reply{}, err
	}
	if own := c.app(); own != "" {
		if f.App != "" && f.App != own {
			return ok(pageOf[v1.Operation](c, nil, nil))
		}
		f.App = own
	}
	tasks, err := h.Listing.ListTasks(ctx, f, after, limit)
	if err != nil {
		return reply{}, failure("list the operations", err)
	}
	c.Audit.Targets = len(tasks)
	return ok(pageOfRows(c, tasks, limit, viewOperation, func(t store.TaskSummary) any { return t.Number }))
}

// getOperation returns a task. With ?wait= it returns when the task is done or that time has passed.
func (h *Handler) getOperation(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	wait := c.params.wait()
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	t, err := h.Listing.GetTask(ctx, id, c.app())
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	// A caller that reads its own task needs no audit row, because the task has one.
	c.Audited = t.App == c.Principal.App && t.User == c.Principal.User
	if wait > 0 && t.Open > 0 {
		if err := h.await(ctx, id, wait); err != nil {
			return reply{}, err
		}
		if t, err = h.Listing.GetTask(ctx, id, c.app()); err != nil {
			return reply{}, stored(err, "operation", id)
		}
	}
	return ok(viewOperation(t))
}

// cancelOperation ends the targets of a task that have not begun.
func (h *Handler) cancelOperation(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	cancelled, err := h.Cancels.Cancel(ctx, id, c.app())
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	c.Audit.Targets = cancelled.Ended + cancelled.Asked
	t, err := h.Listing.GetTask(ctx, id, c.app())
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	return ok(v1.Cancellation{
		Cancelled: cancelled.Ended, Asked: cancelled.Asked, Begun: cancelled.Begun, Operation: viewOperation(t),
	})
}

// await blocks until the task is done, the time has passed, the caller has hung up or the server stops.
func (h *Handler) await(ctx context.Context, id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(h.stopping, cancel)() //nolint:contextcheck // both may end the wait
	err := h.Engine.Wait(ctx, id)
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return stored(err, "operation", id)
}

func viewResult(v store.ItemView) v1.Result {
	r := v1.Result{
		Namespace: v.Process.Namespace, Name: v.Process.Name, Host: v.Asked, Op: string(v.Op),
		Outcome: v1.OutcomePending,
	}
	if v.Done && v.Outcome != nil {
		r.Outcome, r.Message, r.Hosted = v1.OutcomeOK, v.Outcome.Text, v.Outcome.Hosted
		if text, found := process.Already(v.Op, v.Outcome.Fault); found {
			r.Message = text
		} else if v.Outcome.Fault != process.None {
			r.Outcome = string(v.Outcome.Fault)
		}
	}
	return r
}

// hostOf returns the host of a result, for the check of rights.
func (h *Handler) hostOf(v store.ItemView) access.Host {
	if a, found := h.Directory.LookupID(v.Asked); found {
		return gate.Host(a)
	}
	return access.Host{Area: v.Cloud, IP: v.IP, ID: v.Asked}
}

// listResults lists the results of the targets of a task.
func (h *Handler) listResults(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	outcome := c.params.choice("outcome", v1.OutcomeOK, v1.OutcomeFailed, v1.OutcomePending)
	skip := 0
	limit, err := c.params.page(&skip)
	if err != nil {
		return reply{}, err
	}
	var views []v1.Result
	seen, shown := 0, 0
	errFull := errors.New("page is full")
	err = h.Results(ctx, c.Call, id, c.app(), h.hostOf, func(v store.ItemView) error {
		if len(views) == limit || shown >= mostShown {
			return errFull
		}
		seen++
		if r := viewResult(v); seen > skip && (outcome == "" || outcome == kindOf(r.Outcome)) {
			views = append(views, r)
			shown += len(r.Message)
		}
		return nil
	})
	if denied, ok := errors.AsType[*edge.DeniedError](err); ok {
		return reply{}, forbidden(denied.Missing)
	}
	c.Audit.Targets = len(views)
	var last any
	switch {
	case errors.Is(err, errFull):
		last = seen
	case err != nil:
		return reply{}, stored(err, "operation", id)
	}
	return reply{status: http.StatusOK, body: pageOf(c, views, last), weight: shown}, nil
}

// kindOf returns the kind of an outcome for a filter: every fault is a failure.
func kindOf(outcome string) string {
	if outcome == v1.OutcomeOK || outcome == v1.OutcomePending {
		return outcome
	}
	return v1.OutcomeFailed
}
