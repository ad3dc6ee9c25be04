package install

import (
	"context"
	"net/http"

	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
)

// RemoveHost removes a host, by its key or any of its names. The processes on the host continue.
func (h *Handler) RemoveHost(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Subject("id")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if h.Joining.Enroller == nil {
		return call.Reply{}, noEnroller()
	}
	a, known := h.hosts.KnownHost(id)
	if !known {
		return call.Reply{}, call.Problemf(http.StatusNotFound, "there is no host %q", edge.Clip(id))
	}
	c.Audit.Target = edge.Clip(hosts.AddressOf(a) + " " + a.Key)
	if err := h.Joining.Enroller.Remove(ctx, a.Key, h.operations.ChangeBy(c).By); err != nil {
		return call.Reply{}, call.StoreProblem(err, "host", id)
	}
	return call.Reply{Status: http.StatusNoContent}, nil
}
