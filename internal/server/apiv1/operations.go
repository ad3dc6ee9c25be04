package apiv1

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

func viewOperation(t store.TaskSummary) v1.Operation {
	v := v1.Operation{
		ID: t.ID, Op: string(t.Op), Subject: t.Process.String(), Requests: t.Requests, App: t.App, User: t.User,
		RequestID: t.RequestID, Selector: t.Selector,
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

// longestBake is the longest bake or pause of a rollout.
const longestBake = 24 * time.Hour

// readPlan reads the plan of a rollout, and reports all of its faults.
func (r *operationRequest) readPlan() error {
	var faults processfile.Faults
	fault := func(field string, err error) {
		if err != nil {
			faults = append(faults, processfile.Fault{Path: field, Text: err.Error()})
		}
	}
	p := r.Rollout
	var err error
	r.plan.Batch, err = rollout.ParseSize(p.Batch)
	if err == nil && r.plan.Batch == (rollout.Size{}) {
		err = errors.New("is 0: expected at least one host")
	}
	fault("batch", err)
	if p.MaxFailures != "" {
		r.plan.MaxFailures, err = rollout.ParseSize(p.MaxFailures)
		fault("max_failures", err)
	}
	fault("canary", within(p.Canary, maxTargets))
	fault("bake_seconds", within(p.BakeSeconds, int(longestBake/time.Second)))
	fault("pause_seconds", within(p.PauseSeconds, int(longestBake/time.Second)))
	if p.Order != "" {
		_, isFact := selector.FactName(p.Order)
		if !isFact && !selector.Reserved(p.Order) {
			fault("order", selector.CheckKey(p.Order))
		}
	}
	if !r.Op.Info().RollsOut {
		return invalid("rollout", "is not for the operation %s: expected start, stop, restart, reload, kill or signal",
			r.Op)
	}
	if r.Given != nil {
		return invalid("spec", "is not for a rollout: every host uses its stored spec")
	}
	r.plan.Canary, r.plan.SkipAway, r.plan.Judged = p.Canary, p.SkipAway, !r.Op.Info().Ends
	r.plan.Bake, r.plan.Pause = time.Duration(p.BakeSeconds)*time.Second, time.Duration(p.PauseSeconds)*time.Second
	if len(faults) > 0 {
		return invalidFile("rollout", faults)
	}
	return nil
}

func within(n, most int) error {
	if n < 0 || n > most {
		return fmt.Errorf("is %d: expected 0 to %d", n, most)
	}
	return nil
}

// createRollout stores a rollout and returns it; package drive carries it out.
func (h *Handler) createRollout(ctx context.Context, c *call, req *operationRequest,
	requests []store.Request,
) (reply, error) {
	t := h.NewTask(c.Call)
	r := &store.Rollout{
		ID: "ro-" + strings.ToLower(rand.Text()[:12]), App: t.App, User: t.User, RequestID: t.RequestID,
		Created: t.Created, Op: req.Op, HostTimeout: req.hostTimeout(), Selector: req.choice.selector.String(),
		Order: req.Rollout.Order,
	}
	hosts := h.rolloutHosts(r, requests)
	r.Rollout, r.Total = rollout.New(req.plan, hosts), len(hosts)
	c.Operates(edge.Clip(requests[0].Process.String()), len(hosts), r.ID, map[process.Op]int{req.Op: len(hosts)})
	row := c.Audit
	row.Message = process.Success
	if err := h.Rollouts.CreateRollout(ctx, r, row); err != nil {
		return reply{}, refusedRollout(err, "")
	}
	c.Audited = true
	return reply{
		status: http.StatusAccepted, body: viewRollout(r), location: "/rollouts/" + url.PathEscape(r.ID),
	}, nil
}

// rolloutHosts returns the hosts of the requests with their processes, in the order of the rollout. It sets the
// processes of the rollout.
func (h *Handler) rolloutHosts(r *store.Rollout, requests []store.Request) []rollout.Host {
	place := map[string]int{}
	var hosts []rollout.Host
	for i := range requests {
		r.Processes = append(r.Processes, requests[i].Process)
		for _, t := range requests[i].Targets {
			at, known := place[t.Agent]
			if !known {
				at = len(hosts)
				place[t.Agent] = at
				hosts = append(hosts, rollout.Host{Agent: t.Agent, Name: t.Asked})
			}
			hosts[at].Processes = append(hosts[at].Processes, requests[i].Process)
		}
	}
	slices.SortFunc(r.Processes, process.CompareIDs)
	r.Processes = slices.Compact(r.Processes)
	value := func(x *rollout.Host) (text string, has bool) {
		if a, known := h.Directory.ByKey(x.Agent); known && r.Order != "" {
			return a.Select(r.Order)
		}
		return "", false
	}
	slices.SortFunc(hosts, func(x, y rollout.Host) int {
		xs, xHas := value(&x)
		ys, yHas := value(&y)
		if xHas != yHas {
			if xHas {
				return -1
			}
			return 1
		}
		return cmp.Or(strings.Compare(xs, ys), strings.Compare(x.Name, y.Name))
	})
	return hosts
}

// refusedRollout turns an error about a rollout into a problem.
func refusedRollout(err error, id string) error {
	if busy, ok := errors.AsType[*store.RolloutBusyError](err); ok {
		return problemf(http.StatusConflict, "%v", busy)
	}
	if state, ok := errors.AsType[*rollout.StateError](err); ok {
		return problemf(http.StatusConflict, "%v", state)
	}
	return stored(err, "rollout", id)
}

func viewRollout(r *store.Rollout) v1.Rollout {
	states := r.States
	if states == nil {
		states = r.Counts()
	}
	v := v1.Rollout{
		ID: r.ID, Op: string(r.Op), Selector: r.Selector, App: r.App, User: r.User, RequestID: r.RequestID,
		CreatedAt: r.Created, State: string(r.State), Reason: r.Reason, Batch: r.Batch,
		Plan: v1.RolloutPlan{
			Batch: r.Plan.Batch.String(), Canary: r.Plan.Canary, BakeSeconds: int(r.Plan.Bake / time.Second),
			PauseSeconds: int(r.Plan.Pause / time.Second), MaxFailures: r.Plan.MaxFailures.String(), Order: r.Order,
			SkipAway: r.Plan.SkipAway,
		},
		Counts: v1.RolloutCounts{
			Hosts: r.Total, Waiting: states[rollout.Waiting], Begun: states[rollout.Begun],
			Baking: states[rollout.Baking], OK: states[rollout.Succeeded], Failed: states[rollout.Failed],
			Skipped: states[rollout.Skipped],
		},
	}
	for _, id := range r.Processes {
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

// listRollouts lists the rollouts that the caller may see, newest first.
func (h *Handler) listRollouts(ctx context.Context, c *call) (reply, error) {
	f := store.RolloutFilter{App: c.app(), State: rollout.State(c.params.choice("state", v1.RolloutRunning,
		v1.RolloutPaused, v1.RolloutDone, v1.RolloutAborted))}
	var after int64
	limit, err := c.params.page(&after)
	if err != nil {
		return reply{}, err
	}
	list, err := h.Rollouts.ListRollouts(ctx, f, after, limit)
	if err != nil {
		return reply{}, failure("list the rollouts", err)
	}
	c.Audit.Targets = len(list)
	return ok(pageOfRows(c, list, limit, func(r store.Rollout) v1.Rollout { return viewRollout(&r) },
		func(r store.Rollout) any { return r.Number }))
}

// getRollout returns a rollout with its hosts.
func (h *Handler) getRollout(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	r, err := h.Rollouts.GetRollout(ctx, id, c.app())
	if err != nil {
		return reply{}, stored(err, "rollout", id)
	}
	return ok(viewRollout(r))
}

// changeRollout changes a rollout as its app or an administrator asks.
func (h *Handler) changeRollout(ctx context.Context, c *call, change func(*rollout.Rollout) error) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	r, err := h.Rollouts.ChangeRollout(ctx, id, c.app(), change)
	if err != nil {
		return reply{}, refusedRollout(err, id)
	}
	return ok(viewRollout(r))
}

func (h *Handler) pauseRollout(ctx context.Context, c *call) (reply, error) {
	return h.changeRollout(ctx, c, func(r *rollout.Rollout) error {
		return r.Pause("paused by " + cmp.Or(c.Principal.User, c.Principal.App))
	})
}

func (h *Handler) resumeRollout(ctx context.Context, c *call) (reply, error) {
	return h.changeRollout(ctx, c, (*rollout.Rollout).Resume)
}

func (h *Handler) abortRollout(ctx context.Context, c *call) (reply, error) {
	return h.changeRollout(ctx, c, (*rollout.Rollout).Abort)
}

func (h *Handler) retryRollout(ctx context.Context, c *call) (reply, error) {
	var req v1.RolloutRetry
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	return h.changeRollout(ctx, c, func(r *rollout.Rollout) error {
		n, err := r.Retry(req.Away)
		c.Audit.Targets = n
		return err
	})
}
