package install

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
)

// ListProxies lists the proxies that have joined.
func (h *Handler) ListProxies(_ context.Context, c *call.Call) (call.Reply, error) {
	limit := c.Params.Limit()
	var after proxyPlace
	c.Params.Cursor(&after)
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	list := call.Behind(h.hosts.AllProxies(), after.before)
	var last any
	if len(list) > limit {
		list = list[:limit]
		last = proxyPlace{list[limit-1].Area, list[limit-1].Name}
	}
	views := make([]v1.Proxy, len(list))
	for i, p := range list {
		views[i] = v1.Proxy{
			Name: p.Name, Area: p.Area, Key: p.Key, Advertise: p.Advertise, Online: p.Online, Agents: p.Agents,
			Build: p.Build, LastSeen: call.OptionalTime(p.LastSeen),
			JoinedAt: p.Created,
		}
	}
	return call.OK(call.PageOf(c, views, last))
}

// proxyPlace is the place of a proxy in the list of all proxies. The zero place is before every proxy.
type proxyPlace struct {
	Area int
	Name string
}

// before reports whether the place lies before a proxy.
func (p proxyPlace) before(one hosts.Proxy) bool {
	return cmp.Or(cmp.Compare(p.Area, one.Area), cmp.Compare(p.Name, one.Name)) < 0
}

// RemoveProxy removes a proxy, by its key or name.
func (h *Handler) RemoveProxy(ctx context.Context, c *call.Call) (call.Reply, error) {
	id := c.Request.PathValue("id")
	c.Audit.Target = edge.Clip(id)
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	if h.Joining.Enroller == nil {
		return call.Reply{}, noEnroller()
	}
	list := h.hosts.AllProxies()
	i := slices.IndexFunc(list, func(p hosts.Proxy) bool { return p.Key == id || p.Name == id })
	if i < 0 {
		return call.Reply{}, call.Problemf(http.StatusNotFound, "there is no proxy %q", edge.Clip(id))
	}
	c.Audit.Target = edge.Clip(fmt.Sprintf("%d:%s %s", list[i].Area, list[i].Name, list[i].Key))
	if err := h.Joining.Enroller.RemoveProxy(ctx, list[i].Key); err != nil {
		return call.Reply{}, call.StoreProblem(err, "proxy", id)
	}
	return call.Reply{Status: http.StatusNoContent}, nil
}
