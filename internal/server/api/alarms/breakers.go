package alarms

import (
	"context"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

func viewBreaker(b store.Breaker) v1.Breaker {
	return v1.Breaker{
		Namespace: b.Process.Namespace, Name: b.Process.Name, Revision: b.Revision, Cause: string(b.Cause),
		Failed: b.Failed, Hosts: b.Hosts, OpenedAt: b.Opened, UntilAt: b.Until, ClosedAt: call.OptionalTime(b.Closed),
		ClosedBy: b.ClosedBy,
	}
}

// ListBreakers lists the open breakers of the processes that the caller may query on any host, on one page.
func (h *Handler) ListBreakers(ctx context.Context, c *call.Call) (call.Reply, error) {
	closed := c.Params.Flag("closed")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	list, err := h.Breakers.ListBreakers(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("list the breakers", err)
	}
	views := []v1.Breaker{}
	for _, b := range list {
		wanted := b.Closed.IsZero() || closed != nil && *closed
		if wanted && !c.Principal.On(access.OperationOf(process.Query), b.Process.Namespace).Nowhere() {
			views = append(views, viewBreaker(b))
		}
	}
	return call.OK(call.PageOf(c, views, nil))
}

// ResetBreaker closes a breaker. It needs the right to start the process on every host, because drover then relaunches
// it on every host.
func (h *Handler) ResetBreaker(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := process.ID{Namespace: c.Request.PathValue("namespace"), Name: c.Request.PathValue("name")}
	c.Audit.Target = edge.Clip(id.Namespace + "/" + id.Name)
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	op := access.OperationOf(process.Start)
	if !c.Principal.On(op, id.Namespace).Everywhere() {
		var missing access.Missing
		missing.Found(op, c.Audit.Target, "every host")
		return call.Reply{}, call.Forbidden(missing)
	}
	by := c.Principal.User
	if by == "" {
		by = c.Principal.App
	}
	b, err := h.Breakers.CloseBreaker(ctx, id, h.Now(), by)
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "breaker", c.Audit.Target)
	}
	h.Bus.Changed(bus.Work)
	return call.OK(viewBreaker(b))
}
