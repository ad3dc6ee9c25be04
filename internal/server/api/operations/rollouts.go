package operations

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/bus"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// Rollouts holds rollouts with their steps.
type Rollouts interface {
	store.Rollouts
	store.RolloutSteps
}

// RefusedRollout turns an error of a change of a rollout into a problem.
func RefusedRollout(err error, id string) error {
	if busy, ok := errors.AsType[*store.RolloutBusyError](err); ok {
		return call.Problemf(http.StatusConflict, "%v", busy)
	}
	if state, ok := errors.AsType[*rollout.StateError](err); ok {
		return call.Problemf(http.StatusConflict, "%v", state)
	}
	if _, known := errors.AsType[*call.Problem](err); known || errors.Is(err, store.ErrRevised) {
		return err
	}
	return call.StoreProblem(err, "rollout", id)
}

// ViewRollout shows a rollout, with its hosts if they were read.
func ViewRollout(r *store.Rollout) v1.Rollout {
	states := r.States
	if states == nil {
		states = r.Counts()
	}
	v := v1.Rollout{
		ID: r.ID, Op: string(r.Op), Selector: r.Selector, App: r.App, User: r.User, RequestID: r.RequestID,
		CreatedAt: r.Created, State: string(r.State), Reason: r.Reason, Batch: r.Batch, Plan: r.Plan.RolloutPlan,
		Undoing: r.Undoing(), Undoes: r.Undoes, ApprovedBy: r.Approvals.By, Schedule: r.Schedule, OneOf: r.Plan.OneOf,
		AgainWhenLost: r.Plan.AgainWhenLost,
		Counts: v1.RolloutCounts{
			Hosts: r.Total, Waiting: states[rollout.Waiting], Begun: states[rollout.Begun],
			Baking: states[rollout.Baking], OK: states[rollout.Succeeded], Failed: states[rollout.Failed],
			Skipped: states[rollout.Skipped],
		},
	}
	if !r.At.IsZero() {
		v.At = &r.At
	}
	for _, id := range r.Processes() {
		v.Processes = append(v.Processes, id.String())
	}
	place := map[string]int{}
	for i := range r.Hosts {
		x := &r.Hosts[i]
		host := v1.RolloutHost{Host: x.Name, Batch: x.Batch, State: string(x.State), Cause: x.Cause, Message: x.Text}
		if x.State != rollout.Waiting {
			host.Operation = r.BatchTask(x.Batch)
		}
		v.Hosts = append(v.Hosts, host)
		if x.State != rollout.Failed {
			continue
		}
		at, known := place[x.Cause]
		if !known {
			at = len(v.Failures)
			place[x.Cause] = at
			v.Failures = append(v.Failures, v1.RolloutFailure{Cause: x.Cause, Message: x.Text})
		}
		v.Failures[at].Hosts = append(v.Failures[at].Hosts, x.Name)
	}
	slices.SortStableFunc(v.Failures, func(a, b v1.RolloutFailure) int {
		return cmp.Compare(len(b.Hosts), len(a.Hosts))
	})
	return v
}

// ListRollouts lists the rollouts that the caller may see, newest first.
func (h *Handler) ListRollouts(ctx context.Context, c *call.Call) (call.Reply, error) {
	f := store.RolloutFilter{Sight: c.Sight(), Namespace: c.Params.Text("namespace")}
	state := c.Params.Choice("state", v1.RolloutActive, v1.RolloutScheduled, v1.RolloutRunning, v1.RolloutHeld,
		v1.RolloutPaused, v1.RolloutDone, v1.RolloutAborted)
	if f.Active = state == v1.RolloutActive; !f.Active {
		f.State = rollout.State(state)
	}
	choice := hosts.ChoiceOf(&c.Params)
	var after int64
	limit, err := c.Params.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	f.Agents = h.hosts.KeysOf(choice)
	s := h.NewSeer(c)
	list, next, err := collectVisible(s, after, limit, func(after int64) ([]store.Rollout, error) {
		return h.Rollouts.ListRollouts(ctx, f, after, limit)
	}, func(r *store.Rollout) int64 { return r.Number }, func(r *store.Rollout) (bool, error) {
		return s.Rollout(ctx, r)
	})
	if err != nil {
		return call.Reply{}, call.Failure("list the rollouts", err)
	}
	return seenPage(c, list, next, func(r store.Rollout) v1.Rollout { return ViewRollout(&r) })
}

// GetRollout returns a rollout with its hosts, its failures, and the other tasks on the same processes.
func (h *Handler) GetRollout(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	r, err := h.seenRollout(ctx, c, id)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "rollout", id)
	}
	v := ViewRollout(r)
	h.common(&v, r)
	if v.Others, err = h.besides(ctx, c, r); err != nil {
		return call.Reply{}, call.Failure("list the operations beside a rollout", err)
	}
	return call.OK(v)
}

// mostOthers is the largest number of other tasks that GetRollout returns.
const mostOthers = 20

// besides returns the operations that somebody has begun on the processes and hosts of a rollout while it went on, as
// far as the caller may see them.
func (h *Handler) besides(ctx context.Context, c *call.Call, r *store.Rollout) ([]v1.Task, error) {
	f := store.TaskFilter{
		Sight: c.Sight(), Since: r.Created, Beside: &store.Beside{Rollout: r.ID, Processes: r.Processes()},
	}
	if !r.At.IsZero() {
		f.Since = r.At
	}
	if !r.State.Active() { // its last batch has ended
		f.Until = cmp.Or(r.Settled, r.Created)
	}
	for i := range r.Hosts {
		f.Beside.Agents = append(f.Beside.Agents, r.Hosts[i].Agent)
	}
	s := h.NewSeer(c)
	list, _, err := collectVisible(s, 0, mostOthers, func(after int64) ([]store.TaskSummary, error) {
		return h.Listing.ListTasks(ctx, f, after, mostOthers)
	}, func(t *store.TaskSummary) int64 { return t.Number }, func(t *store.TaskSummary) (bool, error) {
		return s.Task(ctx, t)
	})
	return call.Viewed(list, ViewTask), err
}

// seenRollout returns a rollout of the caller's app, or a rollout that a person may read on all of its hosts. It
// returns store.ErrNotFound for any other rollout.
func (h *Handler) seenRollout(ctx context.Context, c *call.Call, id string) (*store.Rollout, error) {
	r, err := h.Rollouts.GetRollout(ctx, id, c.App())
	if !c.Principal.Proven || !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	other, failed := h.Rollouts.GetRollout(ctx, id, "")
	if failed != nil {
		return nil, failed
	}
	s := h.NewSeer(c)
	everywhere := !slices.ContainsFunc(other.Processes(), func(id process.ID) bool {
		return !s.reaches.On(access.OperationOf(process.Query), id.Namespace).Everywhere()
	})
	if !everywhere && !h.onAll(other, s.reads) {
		return nil, err
	}
	return other, nil
}

// changeRollout changes a rollout as its app or an administrator asks.
func (h *Handler) changeRollout(
	ctx context.Context, c *call.Call, change func(*rollout.Rollout) error,
) (call.Reply, error) {
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	answer, err := h.change(ctx, c, id, c.App(), change)
	return answer, h.onlyOwn(ctx, c, id, err)
}

// onlyOwn turns an error of a change of a rollout into a problem. If another app began the rollout and the caller may
// see the rollout, the problem says who may change it.
func (h *Handler) onlyOwn(ctx context.Context, c *call.Call, id string, err error) error {
	if p, known := errors.AsType[*call.Problem](err); !known || p.Status != http.StatusNotFound {
		return err
	}
	if r, failed := h.seenRollout(ctx, c, id); failed == nil {
		by := beganBy(r.App, r.User)
		return call.Problemf(http.StatusForbidden, "%s began rollout %s: only %s or an administrator may change it", by, id, by)
	}
	return err
}

// change changes a rollout if it belongs to an app; an empty app means any app.
func (h *Handler) change(
	ctx context.Context, c *call.Call, id, app string, do func(*rollout.Rollout) error,
) (call.Reply, error) {
	r, err := h.Rollouts.ChangeRollout(ctx, id, app, h.ChangeBy(c), do)
	if err != nil {
		return call.Reply{}, RefusedRollout(err, id)
	}
	h.Bus.Changed(bus.Events, bus.Work)
	return call.OK(ViewRollout(r))
}

// ChangeBy returns the record of a change by the caller now.
func (h *Handler) ChangeBy(c *call.Call) store.RolloutChange {
	by := process.Actor{Kind: process.ActorCaller, App: c.Principal.App, User: c.Principal.User}
	return store.RolloutChange{At: h.Now(), By: by}
}

// PauseRollout stops a rollout before its next batch.
func (h *Handler) PauseRollout(ctx context.Context, c *call.Call) (call.Reply, error) {
	return h.changeRollout(ctx, c, func(r *rollout.Rollout) error {
		return r.Pause("paused by " + c.Principal.Name())
	})
}

// ResumeRollout lets a paused rollout go on.
func (h *Handler) ResumeRollout(ctx context.Context, c *call.Call) (call.Reply, error) {
	return h.changeRollout(ctx, c, (*rollout.Rollout).Resume)
}

// AbortRollout ends a rollout. Hosts that have not begun stay as they are.
func (h *Handler) AbortRollout(ctx context.Context, c *call.Call) (call.Reply, error) {
	return h.changeRollout(ctx, c, aborted("aborted by "+c.Principal.Name()))
}

// RetryRollout repeats the steps of a rollout on its failed hosts.
func (h *Handler) RetryRollout(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req v1.RolloutRetry
	if err := c.Decode(ctx, &req); err != nil {
		return call.Reply{}, err
	}
	return h.changeRollout(ctx, c, func(r *rollout.Rollout) error {
		n, err := r.Retry(req.Away)
		c.Audit.Targets = n
		return err
	})
}

// PaceRollout changes the batches and the pauses for the hosts of a rollout that have not begun.
func (h *Handler) PaceRollout(ctx context.Context, c *call.Call) (call.Reply, error) {
	for _, name := range []string{"canary", "canary_select", "canary_approval", "order", "spread", "skip_away", "at"} {
		if c.Params.Values.Has(name) {
			return call.Reply{}, call.Invalid(name, "is settled when a rollout is created: expected batch, bake, pause, max_failures or "+
				"max_unavailable")
		}
	}
	o, wrong := h.PlanOptionsOf(&c.Params)
	if err := call.Together(c.Params.Done(), wrong); err != nil {
		return call.Reply{}, err
	}
	if len(o.changes) == 0 {
		return call.Reply{}, call.Invalid("", "nothing is to change: expected batch, bake, pause, max_failures or max_unavailable")
	}
	id := c.Subject("id")
	op, err := h.opOfRollout(ctx, c, id)
	if err != nil {
		return call.Reply{}, err
	}
	answer, err := h.change(ctx, c, id, c.App(), func(r *rollout.Rollout) error {
		if r.Plan.OneOf {
			return call.Problemf(http.StatusUnprocessableEntity, "rollout %s is of one host: it has no batches", id)
		}
		p := r.Plan.RolloutPlan
		for _, change := range o.changes {
			change(&p)
		}
		if faults := processfile.CheckRolloutOf(op.Info(), &p); len(faults) > 0 {
			return call.InvalidFile("", faults)
		}
		return r.Pace(p)
	})
	return answer, h.onlyOwn(ctx, c, id, err)
}

// opOfRollout returns the operation of a rollout that the caller may change.
func (h *Handler) opOfRollout(ctx context.Context, c *call.Call, id string) (process.Op, error) {
	r, err := h.Rollouts.GetRollout(ctx, id, c.App())
	if err != nil {
		return "", h.onlyOwn(ctx, c, id, call.StoreProblem(err, "rollout", id))
	}
	return r.Op, nil
}

// ApproveRollout resumes a rollout that waits for approval. The person who began the rollout may not approve it.
func (h *Handler) ApproveRollout(ctx context.Context, c *call.Call) (call.Reply, error) {
	if !c.Principal.Proven {
		return call.Reply{}, call.Problemf(http.StatusForbidden, "an app that names its user may not approve a rollout: "+
			"expected a user with a token, or an administrator of the server at its socket")
	}
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	r, err := h.seenRollout(ctx, c, id)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "rollout", id)
	}
	if r.App != c.Principal.App && !c.Principal.Admin && !h.mayRollOut(&c.Principal, r) {
		return call.Reply{}, call.Problemf(http.StatusForbidden,
			"rollout %s does %s: only a person who may do that on all of its hosts may approve it", r.ID, r.Op)
	}
	if r.State == rollout.Held && r.User == c.Principal.User {
		return call.Reply{}, call.Problemf(http.StatusForbidden, "%s began rollout %s: another person must approve it", r.User, r.ID)
	}
	return h.change(ctx, c, id, r.App, func(r *rollout.Rollout) error { return r.Approve(c.Principal.User, h.Now()) })
}
