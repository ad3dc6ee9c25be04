package files

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/processfile"
	"drover/internal/server/api/call"
	"drover/internal/server/api/operations"
	"drover/internal/server/plan"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// foresee completes the plan of an apply with the hosts that are away, and with the reason for which the server would
// refuse the apply or hold its rollouts. A refusal that is not nil is that reason. Otherwise the rights to the steps
// and the rollouts decide.
func (h *Handler) foresee(ctx context.Context, c *call.Call, p *v1.Plan, steps []plan.Step, rollouts []*store.Rollout,
	refusal error,
) (err error) {
	agents := make([]string, len(steps))
	for i := range steps {
		agents[i] = steps[i].Agent
	}
	p.Away = h.hosts.Away(agents)
	if refusal == nil {
		refusal = h.operations.MayApply(c, steps)
	}
	if refused, ok := errors.AsType[*call.Problem](refusal); ok && refused.Status == http.StatusForbidden {
		p.Reason, p.Refused = refused.Detail, refused.Status
		return nil
	}
	if refusal != nil {
		return refusal
	}
	p.Reason, p.Refused, err = h.operations.Hindrance(ctx, steps, rollouts)
	return err
}

// rollouts returns the rollouts that carry out the steps of an apply; none if no process has a rollout.
func (h *Handler) rollouts(
	c *call.Call, t *store.Task, o *operations.PlanOptions, steps []plan.Step,
) ([]*store.Rollout, error) {
	parts, err := plan.Split(steps, o.Plan)
	if faults, ok := errors.AsType[processfile.Faults](err); ok {
		return nil, call.InvalidFile("", faults)
	}
	if err != nil {
		return nil, err
	}
	list := make([]*store.Rollout, len(parts))
	for i, part := range parts {
		r := h.operations.NewRollout(c, store.OpApply)
		r.Through, r.Message, r.ExpectedRevision = t.Through, t.Message, t.ExpectedRevision
		h.operations.LayRollout(r, part.Plan, o.At, part.Steps)
		list[i] = r
	}
	h.share(list)
	return list, nil
}

// share divides the limit of hosts without an approval among the rollouts of one call: together they reach no more
// hosts than one rollout may.
func (h *Handler) share(list []*store.Rollout) {
	hosts := map[string]bool{}
	for _, r := range list {
		for i := range r.Hosts {
			hosts[r.Hosts[i].Agent] = true
		}
	}
	if h.Breadth == 0 || len(list) < 2 || len(hosts) <= h.Breadth {
		return
	}
	left := h.Breadth
	for _, r := range list {
		r.Plan.Breadth, r.Plan.Shared = 0, h.Breadth
		if r.Total > left {
			r.Plan.Breadth = cmp.Or(left, rollout.NoHost)
		}
		left -= min(left, r.Total)
	}
}

// rollOut stores the rollouts that carry out an apply.
func (h *Handler) rollOut(
	ctx context.Context, c *call.Call, answer v1.Plan, list []*store.Rollout,
) (call.Reply, error) {
	switch err := h.operations.StoreRollouts(ctx, c, list); {
	case errors.Is(err, store.ErrRevised):
		return call.Reply{}, changedMeanwhile(answer.Namespace)
	case err != nil:
		return call.Reply{}, err
	}
	for _, r := range list {
		answer.Rollouts = append(answer.Rollouts, operations.ViewRollout(r))
	}
	return call.Reply{
		Status: http.StatusAccepted, Body: answer, Location: "/rollouts/" + url.PathEscape(list[0].ID),
	}, nil
}

// selectionsByRollout gives each rollout the change of the selections in force that it makes when it is done, and the
// change that undoes it. Entries without a step belong to the first rollout.
func selectionsByRollout(list []*store.Rollout, change *store.SelectionChange, standing []store.Selection,
	known []plan.Known,
) {
	if change == nil {
		return
	}
	owner := map[string]*store.Rollout{}
	for _, r := range list {
		for _, id := range r.Processes() {
			owner[operations.EntryOf(id)] = r
		}
	}
	entries := slices.Clone(change.Entries)
	if change.All {
		for _, s := range standing {
			entries = append(entries, operations.EntryOf(s.Process))
		}
	}
	slices.Sort(entries)
	of := map[*store.Rollout][]string{}
	for _, entry := range slices.Compact(entries) {
		r := cmp.Or(owner[entry], list[0])
		of[r] = append(of[r], entry)
	}
	for r, entries := range of {
		r.Selections = operations.PartOf(*change, entries)
		r.Former = operations.FormerOf(r.Selections, standing, known)
	}
}
