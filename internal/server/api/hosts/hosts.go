package hosts

import (
	"context"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/why"
)

// NameOf returns the name of an agent: its stable id, or cloud:ip.
func NameOf(a store.Agent) string { return fleet.NameOf(a) }

// AddressOf returns the address of an agent as cloud:ip.
func AddressOf(a store.Agent) string { return fleet.Address(a) }

// View shows the host of an agent, and whether the agent is connected.
func (h *Handler) View(a store.Agent) v1.Host {
	p := h.Directory.Presence(a.Key, h.Now())
	v := v1.Host{ID: NameOf(a), Cloud: a.Cloud, IP: a.IP, Online: p.Joined && !p.Away}
	if seen := p.LastSeen.UTC(); !p.LastSeen.IsZero() {
		v.LastSeen = &seen
	}
	return v
}

// Directory knows the agents.
type Directory interface {
	// After returns the agents after a place, in order.
	After(p fleet.Place) iter.Seq[store.Agent]
	LookupID(id string) (store.Agent, bool)
	ByKey(key string) (store.Agent, bool)
	Presence(key string, now time.Time) fleet.Presence
	// UnsyncedAgents returns the agents that have not told the database all that they have.
	UnsyncedAgents() []string
	// Remarked returns the problem that makes an agent unusable; empty if there is none. Rival reports whether a second
	// host uses the key of the agent.
	Remarked(key string) string
	Rival(key string, now time.Time) (fleet.Rival, bool)
}

// Labels changes the labels of hosts that people set.
type Labels interface {
	// Label sets and removes labels of the agents with these keys, of all or of none. It returns store.ErrNotFound for
	// an unknown key, and *fleet.LabelsError for a host that would have too many labels.
	Label(ctx context.Context, keys []string, set map[string]string, remove []string) error
}

// KnownHost finds a host by its key or any of its names.
func (h *Handler) KnownHost(id string) (store.Agent, bool) {
	if a, there := h.Directory.ByKey(id); there {
		return a, true
	}
	return h.Directory.LookupID(id)
}

// HostOfResult returns the host of a result, for the check of rights.
func (h *Handler) HostOfResult(v store.ItemView) access.Host {
	if a, found := h.Directory.LookupID(v.Spelling); found {
		return gate.Host(a)
	}
	return access.Host{Area: v.Cloud, IP: v.IP, ID: v.Spelling}
}

// AgentFacts returns what package why needs to know of an agent and its link.
func AgentFacts(joined bool, p fleet.Presence) why.Agent {
	return why.Agent{Joined: joined, Away: p.Away, Since: p.Since, Seen: p.LastSeen}
}

// Away returns the names of the hosts that are not connected, each once.
func (h *Handler) Away(agents []string) (names []string) {
	for _, key := range agents {
		if a, known := h.Directory.ByKey(key); known && h.Directory.Presence(key, h.Now()).Away {
			names = append(names, NameOf(a))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// NamedHost returns an unknown host by the name that the caller gave, for the check of rights.
func NamedHost(name string) access.Host {
	area, ip, _ := strings.Cut(name, ":")
	n, err := strconv.Atoi(area)
	addr, bad := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(ip, "["), "]"))
	if err != nil || n < 0 || bad != nil {
		return access.Host{Area: access.NoArea, ID: name}
	}
	return access.Host{Area: n, IP: addr.Unmap().String()}
}
