package operations

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/processes"
	"drover/internal/server/edge"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// beganBy returns the name to show for the origin of a task or rollout: the app, or the user if the user called without
// an app.
func beganBy(app, user string) string {
	if app == "" || app == access.PersonApp(user) {
		return user
	}
	return app
}

// await blocks until the task is done, the time has passed, the caller has hung up or the server stops.
func (h *Handler) await(ctx context.Context, id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(h.Stopping, cancel)() //nolint:contextcheck // both may end the wait
	err := h.Engine.Wait(ctx, id)
	if err == nil || ctx.Err() != nil { // a database does not always return the error of a context
		return nil
	}
	return call.StoreProblem(err, "operation", id)
}

func viewResult(v store.ItemView) v1.Result {
	r := v1.Result{
		Namespace: v.Process.Namespace, Name: v.Process.Name, Host: v.Spelling, Op: string(v.Op),
		Outcome: v1.OutcomePending,
	}
	if v.Cancelling {
		r.Message = "the host was asked to cancel, and has not answered"
	}
	if v.Done && v.Outcome != nil {
		r.Outcome, r.Message, r.Hosted = v1.OutcomeOK, v.Outcome.Text, v.Outcome.Hosted
		if text, found := process.Already(v.Op, v.Outcome.Fault); found {
			r.Message, r.Already = text, true
		} else if v.Outcome.Fault != process.None {
			r.Outcome = string(v.Outcome.Fault)
		}
	}
	return r
}

// ListResults lists the results of the targets of a task.
func (h *Handler) ListResults(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	outcome := c.Params.Choice("outcome", v1.OutcomeOK, v1.OutcomeFailed, v1.OutcomePending)
	skip := 0
	limit, err := c.Params.Page(&skip)
	if err != nil {
		return call.Reply{}, err
	}
	app, err := h.taskApp(ctx, c, id)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "operation", id)
	}
	var views []v1.Result
	seen, shown := 0, 0
	errFull := errors.New("page is full")
	err = h.Results(ctx, c.Call, id, app, h.hosts.HostOfResult, func(v store.ItemView) error {
		if len(views) == limit || shown >= processes.MostShown {
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
		return call.Reply{}, call.Forbidden(denied.Missing)
	}
	h.sayNeverBegins(ctx, id, app, views)
	c.Audit.Targets = len(views)
	var last any
	switch {
	case errors.Is(err, errFull):
		last = seen
	case err != nil:
		return call.Reply{}, call.StoreProblem(err, "operation", id)
	}
	return call.Reply{Status: http.StatusOK, Body: call.PageOf(c, views, last), Weight: shown}, nil
}

// kindOf returns the value of the filter outcome that an outcome has: every fault is a failure.
func kindOf(outcome string) string {
	if outcome == v1.OutcomeOK || outcome == v1.OutcomePending {
		return outcome
	}
	return v1.OutcomeFailed
}

// sayNeverBegins corrects the messages of results of a rollout on one host. A host without an answer never begins such
// an operation later, because the host asks a server first.
func (h *Handler) sayNeverBegins(ctx context.Context, id, app string, results []v1.Result) {
	of := store.RolloutOf(id)
	if of == "" || !slices.ContainsFunc(results, func(r v1.Result) bool { return task.NeverTaken(r.Message) }) {
		return
	}
	if r, err := h.Rollouts.GetRollout(ctx, of, app); err != nil || !r.Plan.OneOf {
		return
	}
	for i := range results {
		results[i].Message = task.Asked(results[i].Message)
	}
}
