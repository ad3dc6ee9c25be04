package apiv1

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// nameOf returns the name of an agent: its stable id, or cloud:ip.
func nameOf(a store.Agent) string {
	if a.ID != "" {
		return a.ID
	}
	return addressOf(a)
}

func addressOf(a store.Agent) string { return fmt.Sprintf("%d:%s", a.Cloud, a.IP) }

func (h *Handler) viewHost(a store.Agent) v1.Host {
	p := h.Directory.Presence(a.Key, h.Now())
	v := v1.Host{ID: nameOf(a), Cloud: a.Cloud, IP: a.IP, Online: !p.Away}
	if seen := p.LastSeen.UTC(); !p.LastSeen.IsZero() {
		v.LastSeen = &seen
	}
	return v
}

// listAgents lists the hosts that the caller may read. It builds the list in memory, because presence changes too often
// to be stored.
func (h *Handler) listAgents(_ context.Context, c *call) (reply, error) {
	p := &c.params
	hosts, state, limit := p.list("host"), p.choice("state", v1.HostOnline, v1.HostAway), p.limit()
	var after fleet.Place
	p.cursor(&after)
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(strings.Join(hosts, " "))
	reach := c.Principal.OnHosts(access.ReadAgents)
	if reach.Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.ReadAgents})
	}
	var views []v1.Agent
	var shown fleet.Place
	var last any
	for a := range h.Directory.After(after) {
		if !reach.Covers(gate.Host(a)) || !anyMatches(hosts, a) {
			continue
		}
		v := h.viewAgent(a)
		if state != "" && v.Online != (state == v1.HostOnline) {
			continue
		}
		if len(views) == limit {
			last = shown
			break
		}
		views, shown = append(views, v), fleet.PlaceOf(a)
	}
	c.Audit.Targets = len(views)
	return ok(pageOf(c, views, last))
}

func (h *Handler) viewAgent(a store.Agent) v1.Agent {
	v := v1.Agent{
		Host: h.viewHost(a), Key: a.Key, Build: a.Build, JoinedAt: a.Created, Labels: a.Labels,
		Business: a.Business,
	}
	p := h.Directory.Presence(a.Key, h.Now())
	v.Policy = p.Facts.Policy
	if note := h.Directory.Remarked(a.Key); note != "" {
		v.Notes = append(v.Notes, note)
	}
	if rival, there := h.Directory.Rival(a.Key, h.Now()); there {
		v.Notes = append(v.Notes,
			fmt.Sprintf(
				"a second host (%s) uses the key of this host, and the server rejects it: run there: drover-agent join --new-identity", edge.Clip(rival.Name)))
	}
	return v
}

// anyMatches reports whether an agent matches one of the patterns; without patterns, every agent does.
func anyMatches(patterns []string, a store.Agent) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		return wildcard.Match(p, addressOf(a)) || a.ID != "" && wildcard.Match(p, a.ID)
	})
}

// agentsNamed returns the keys of the agents that match one of the patterns; nil if there are no patterns.
func (h *Handler) agentsNamed(patterns []string) []string {
	if len(patterns) == 0 {
		return nil
	}
	keys := []string{}
	var wild []string
	for _, p := range patterns {
		switch agent, found := h.Directory.LookupID(p); {
		case found:
			keys = append(keys, agent.Key)
		case wildcard.IsPattern(p):
			wild = append(wild, p)
		}
	}
	if len(wild) == 0 {
		return keys
	}
	for a := range h.Directory.After(fleet.Place{}) {
		if anyMatches(wild, a) {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// removeAgent removes a host, by its key or any of its names. The processes on the host continue.
func (h *Handler) removeAgent(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if h.Joining.Enroller == nil {
		return reply{}, noEnroller()
	}
	a, known := h.Directory.ByKey(id)
	if !known {
		a, known = h.Directory.LookupID(id)
	}
	if !known {
		return reply{}, problemf(http.StatusNotFound, "there is no host %q", edge.Clip(id))
	}
	c.Audit.Target = edge.Clip(addressOf(a) + " " + a.Key)
	if err := h.Joining.Enroller.Remove(ctx, a.Key); err != nil {
		return reply{}, stored(err, "host", id)
	}
	return reply{status: http.StatusNoContent}, nil
}
