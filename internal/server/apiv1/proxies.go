package apiv1

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// Proxies is the register of proxies.
type Proxies interface {
	// List returns all proxies, ordered by area and name.
	List() []Proxy
}

// Proxy is a proxy and its current status.
type Proxy struct {
	store.Proxy
	Online bool
	// LastSeen is zero for a proxy from which this server has received nothing since its start.
	LastSeen time.Time
	// Agents is how many are connected to it.
	Agents int
}

// proxies returns all proxies; none if no proxy can join.
func (h *Handler) proxies() []Proxy {
	if h.Joining.Proxies == nil {
		return nil
	}
	return h.Joining.Proxies.List()
}

// listProxies lists the proxies that have joined.
func (h *Handler) listProxies(_ context.Context, c *call) (reply, error) {
	limit := c.params.limit()
	var after proxyPlace
	c.params.cursor(&after)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	list := behind(h.proxies(), after.before)
	var last any
	if len(list) > limit {
		list = list[:limit]
		last = proxyPlace{list[limit-1].Area, list[limit-1].Name}
	}
	views := make([]v1.Proxy, len(list))
	for i, p := range list {
		views[i] = v1.Proxy{
			Name: p.Name, Area: p.Area, Key: p.Key, Advertise: p.Advertise, Online: p.Online, Agents: p.Agents,
			Build: p.Build, LastSeen: given(p.LastSeen),
			JoinedAt: p.Created,
		}
	}
	return ok(pageOf(c, views, last))
}

// proxyPlace is the place of a proxy in the list of all proxies. The zero place is before every proxy.
type proxyPlace struct {
	Area int
	Name string
}

// before reports whether a proxy comes after the place.
func (p proxyPlace) before(one Proxy) bool {
	return cmp.Or(cmp.Compare(p.Area, one.Area), cmp.Compare(p.Name, one.Name)) < 0
}

// removeProxy removes a proxy, by its key or name.
func (h *Handler) removeProxy(ctx context.Context, c *call) (reply, error) {
	id := c.r.PathValue("id")
	c.Audit.Target = edge.Clip(id)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if h.Joining.Enroller == nil {
		return reply{}, noEnroller()
	}
	list := h.proxies()
	i := slices.IndexFunc(list, func(p Proxy) bool { return p.Key == id || p.Name == id })
	if i < 0 {
		return reply{}, problemf(http.StatusNotFound, "there is no proxy %q", edge.Clip(id))
	}
	c.Audit.Target = edge.Clip(fmt.Sprintf("%d:%s %s", list[i].Area, list[i].Name, list[i].Key))
	if err := h.Joining.Enroller.RemoveProxy(ctx, list[i].Key); err != nil {
		return reply{}, stored(err, "proxy", id)
	}
	return reply{status: http.StatusNoContent}, nil
}
