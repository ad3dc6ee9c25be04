package apiv1

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// hostView is a host as it is named everywhere.
type hostView struct {
	ID     string `json:"id"`
	Cloud  int    `json:"cloud"`
	IP     string `json:"ip"`
	Online bool   `json:"online"`
	// LastSeen is when it was heard last; nil where that was not since the server's start.
	LastSeen *time.Time `json:"last_seen,omitempty"`
}

// agentView is a host in the list of hosts.
type agentView struct {
	hostView
	Key      string    `json:"key"`
	Build    string    `json:"build"`
	JoinedAt time.Time `json:"joined_at"`
	// Labels and Business are those of the token that it has joined with.
	Labels   map[string]string `json:"labels,omitempty"`
	Business int64             `json:"business,omitempty"`
	// Policy is what the owner of the host lets be done there, as it said last; empty where there is no policy.
	Policy string `json:"policy,omitempty"`
	// Notes say what is not right with the host itself.
	Notes []string `json:"notes,omitempty"`
}

// nameOf is what an agent is called: its stable id, or cloud:ip.
func nameOf(a store.Agent) string {
	if a.ID != "" {
		return a.ID
	}
	return addressOf(a)
}

func addressOf(a store.Agent) string { return fmt.Sprintf("%d:%s", a.Cloud, a.IP) }

func (h *Handler) viewHost(a store.Agent) hostView {
	p := h.Directory.Presence(a.Key, h.Now())
	v := hostView{ID: nameOf(a), Cloud: a.Cloud, IP: a.IP, Online: !p.Away}
	if seen := p.LastSeen.UTC(); !p.LastSeen.IsZero() {
		v.LastSeen = &seen
	}
	return v
}

// listAgents lists the hosts that the caller may read about. Presence changes too often to be stored, so the list is
// made here.
func (h *Handler) listAgents(_ context.Context, c *call) (reply, error) {
	p := &c.params
	hosts, state, limit := p.list("host"), p.choice("state", "online", "away"), p.limit()
	var after fleet.Place
	p.cursor(&after)
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.audit.Target = clip(strings.Join(hosts, " "))
	reach := c.principal.OnHosts(access.ReadAgents)
	if reach.Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.ReadAgents})
	}
	var views []agentView
	var shown fleet.Place
	var last any
	for a := range h.Directory.After(after) {
		if !reach.Covers(gate.Host(a)) || !anyMatches(hosts, a) {
			continue
		}
		v := h.viewAgent(a)
		if state != "" && v.Online != (state == "online") {
			continue
		}
		if len(views) == limit {
			last = shown
			break
		}
		views, shown = append(views, v), fleet.PlaceOf(a)
	}
	c.audit.Targets = len(views)
	return ok(pageOf(c, views, last))
}

func (h *Handler) viewAgent(a store.Agent) agentView {
	v := agentView{
		hostView: h.viewHost(a), Key: a.Key, Build: a.Build, JoinedAt: a.Created, Labels: a.Labels,
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
				"a second host (%s) uses the key of this host, and the server rejects it: run there: drover-agent join --new-identity", clip(rival.Name)))
	}
	return v
}

// anyMatches reports whether an agent is of one of the patterns; without any, it is.
func anyMatches(patterns []string, a store.Agent) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		return wildcard.Match(p, addressOf(a)) || a.ID != "" && wildcard.Match(p, a.ID)
	})
}

// agentsNamed returns the keys of the agents that are of one of the patterns; nil when there are no patterns.
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
