package operations

import (
	"context"
	"errors"
	"net/url"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/processes"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
)

// ViewTask shows a task without its results.
func ViewTask(t store.TaskSummary) v1.Task {
	v := v1.Task{
		ID: t.ID, Op: string(t.Op), Subject: t.Process.String(), Requests: t.Requests, App: t.App, User: t.User,
		RequestID: t.RequestID, Selector: t.Selector, Reason: t.Reason,
		CreatedAt: t.Created, State: v1.TaskDone,
		Counts: v1.Counts{Targets: t.Keys, OK: t.Keys - t.Open - t.Failed, Failed: t.Failed, Pending: t.Open},
	}
	if t.Open > 0 {
		v.State = v1.TaskRunning
	}
	return v
}

// came counts the processes that match the filter of a selection now and are not in the selection.
func (h *Handler) came(ctx context.Context, who *access.Principal, s *processes.Selected) (n int, err error) {
	if s.Filter.Named {
		return 0, nil
	}
	values, err := url.ParseQuery(s.Filter.Query)
	if err != nil {
		return 0, call.Failure("read the selection", err)
	}
	p := call.Params{Values: values, Read: map[string]bool{}}
	f := processes.FilterOf(&p)
	q, err := h.processes.Ready(ctx, who, &f, false)
	if err != nil {
		return 0, err
	}
	if s.Filter.Agents != nil {
		q.Agents = s.Filter.Agents
	}
	q.Now = true
	except := processes.Picked(s.Filter.Except)
	err = h.Picture.Each(ctx, q, func(f *rollup.Found) {
		if !s.Has(f) && !except(f) {
			n++
		}
	})
	return n, err
}

// List lists the tasks that the caller may see, newest first.
func (h *Handler) List(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	f := store.TaskFilter{
		App: p.Text("app"), User: p.Text("user"), Namespace: p.Text("namespace"), Since: p.Time("since"),
		Sight: c.Sight(), Op: process.Op(p.Choice("op", call.Supported()...)),
	}
	if state := p.Choice("state", v1.TaskRunning, v1.TaskDone); state != "" {
		over := state == v1.TaskDone
		f.Done = &over
	}
	switch failed := true; p.Choice("outcome", v1.OutcomeOK, v1.OutcomeFailed) {
	case v1.OutcomeFailed:
		f.Failed = &failed
	case v1.OutcomeOK:
		over := true
		failed = false
		f.Failed, f.Done = &failed, &over
	}
	choice := hosts.ChoiceOf(p)
	var after int64
	limit, err := p.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	s := h.NewSeer(c)
	agents := h.hosts.KeysOf(choice)
	tasks, next, err := collectVisible(s, after, limit, func(after int64) ([]store.TaskSummary, error) {
		return h.Listing.ListTasks(ctx, f, after, limit)
	}, func(t *store.TaskSummary) int64 { return t.Number }, func(t *store.TaskSummary) (bool, error) {
		if agents != nil {
			s.RowsLeft -= t.Keys
			if on, err := h.Listing.TaskOn(ctx, t.Number, agents); err != nil || !on {
				return false, err
			}
		}
		return s.Task(ctx, t)
	})
	if err != nil {
		return call.Reply{}, call.Failure("list the operations", err)
	}
	return seenPage(c, tasks, next, ViewTask)
}

// taskApp returns the app to filter by when the caller reads this task; empty means any app. It is the app of the
// rollout for a batch of a rollout that a person sees. It is empty for an administrator, and for a person who may query
// every process of the task.
func (h *Handler) taskApp(ctx context.Context, c *call.Call, id string) (string, error) {
	if c.Principal.Admin || !c.Principal.Proven {
		return c.App(), nil
	}
	if _, err := h.Listing.GetTask(ctx, id, c.App()); !errors.Is(err, store.ErrNotFound) {
		return c.App(), err
	}
	if of := store.RolloutOf(id); of != "" {
		if r, err := h.seenRollout(ctx, c, of); err == nil {
			return r.App, nil
		}
	}
	if sees, err := h.NewSeer(c).results(ctx, id); err != nil || sees {
		return "", err
	}
	return c.App(), nil
}

// Get returns a task. With the parameter wait it blocks until the task is done or that time has passed.
func (h *Handler) Get(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	wait := c.Params.Wait()
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	app, err := h.taskApp(ctx, c, id)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "operation", id)
	}
	t, err := h.Listing.GetTask(ctx, id, app)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "operation", id)
	}
	// A caller that reads its own task needs no audit row, because the task has one.
	c.Audited = t.App == c.Principal.App && t.User == c.Principal.User
	if wait > 0 && t.Open > 0 {
		if err := h.await(ctx, id, wait); err != nil {
			return call.Reply{}, err
		}
		if t, err = h.Listing.GetTask(ctx, id, app); err != nil {
			return call.Reply{}, call.StoreProblem(err, "operation", id)
		}
	}
	return call.OK(ViewTask(t))
}

// within adds the name of an object to the fields of a problem.
func within(object string, err error) error {
	p := call.ProblemOf(err)
	texts := make([]string, len(p.Fields))
	for i := range p.Fields {
		f := &p.Fields[i]
		f.Field = object + "." + f.Field
		texts[i] = f.Field + ": " + f.Detail
	}
	if len(texts) > 0 {
		p.Detail = strings.Join(texts, "; ")
	}
	return p
}
