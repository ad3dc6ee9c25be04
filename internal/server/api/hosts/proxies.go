package hosts

import (
	"time"

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
	// Agents is the number of agents that are connected to the proxy.
	Agents int
}

// AllProxies returns all proxies; none if no proxy can join.
func (h *Handler) AllProxies() []Proxy {
	if h.Proxies == nil {
		return nil
	}
	return h.Proxies.List()
}
