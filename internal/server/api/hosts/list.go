package hosts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// agentFilter selects among the hosts that a caller may read. A zero field matches all.
type agentFilter struct {
	hosts  Choice
	state  string
	area   string
	cloud  int    // the number of area
	search string // in lower case
	build  string
	policy string
	// behind are the areas of the proxies that the caller named; nil means all areas.
	behind map[int]bool
}

// The values of the filter policy. A host matches neither before its agent has introduced itself.
const (
	policyNone    = "none"
	policyLimited = "limited"
)

// agentFilter reads the parameters of a filter of hosts.
func (h *Handler) agentFilter(c *call.Call, reach access.Reach) agentFilter {
	p := &c.Params
	f := agentFilter{
		hosts: ChoiceOf(p), state: p.Choice("state", v1.HostOnline, v1.HostAway), area: p.Text("area"),
		search: strings.ToLower(p.Text("search")), build: p.Text("build"),
		policy: p.Choice("policy", policyNone, policyLimited), behind: h.areasBehind(c, reach),
	}
	var err error
	if f.cloud, err = strconv.Atoi(cmp.Or(f.area, "0")); err != nil {
		p.Fail(call.Invalid("area", "is %.40q: expected the number of an area", f.area))
	}
	return f
}

// areasBehind reads the parameter proxy, and returns the areas of the proxies with that name; nil without the
// parameter. Only administrators may list proxies: for others, a proxy without a host within reach does not exist.
func (h *Handler) areasBehind(c *call.Call, reach access.Reach) map[int]bool {
	name := c.Params.Text("proxy")
	if name == "" {
		return nil
	}
	named, areas := map[int]bool{}, map[int]bool{}
	for _, p := range h.AllProxies() {
		if wildcard.Match(name, p.Name) {
			named[p.Area] = true
		}
	}
	if c.Principal.Admin {
		areas = named
	} else if len(named) > 0 {
		for a := range h.Directory.After(fleet.Place{}) {
			if named[a.Cloud] && !areas[a.Cloud] && reach.Covers(gate.Host(a)) {
				areas[a.Cloud] = true
			}
		}
	}
	if len(areas) == 0 {
		c.Params.Fail(call.Invalid("proxy", "is %.40q: expected the name of a proxy, or a pattern of names", name))
	}
	return areas
}

func (f *agentFilter) matches(a *store.Agent) bool {
	if !f.hosts.Matches(a) || f.search != "" && !mentions(a, f.search) {
		return false
	}
	if f.area != "" && a.Cloud != f.cloud || f.build != "" && !wildcard.Match(f.build, a.Build) {
		return false
	}
	return f.behind == nil || f.behind[a.Cloud]
}

// allows reports whether an agent passes the parts of a filter about its presence and its policy.
func (h *Handler) allows(f *agentFilter, key string) bool {
	if f.policy == "" && f.state == "" {
		return true
	}
	p := h.Directory.Presence(key, h.Now())
	if f.state != "" && p.Away != (f.state == v1.HostAway) {
		return false
	}
	return f.policy == "" || (p.Facts.Policy != "") == (f.policy == policyLimited) && !p.Facts.Started.IsZero()
}

// List lists the hosts that the caller may read. It builds the list in memory, because presence changes too often
// to be stored.
func (h *Handler) List(_ context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	reach := c.Principal.OnHosts(access.ReadAgents)
	f, limit := h.agentFilter(c, reach), p.Limit()
	var after fleet.Place
	p.Cursor(&after)
	if err := p.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(f.hosts.String())
	if reach.Nowhere() {
		return call.Reply{}, call.Forbidden(access.Missing{Operation: access.ReadAgents})
	}
	var views []v1.JoinedHost
	var shown fleet.Place
	var last any
	for a := range h.Directory.After(after) {
		if !reach.Covers(gate.Host(a)) || !f.matches(&a) || !h.allows(&f, a.Key) {
			continue
		}
		if len(views) == limit {
			last = shown
			break
		}
		views, shown = append(views, h.viewHost(a)), fleet.PlaceOf(a)
	}
	c.Audit.Targets = len(views)
	return call.OK(call.PageOf(c, views, last))
}

// Count counts the hosts that the caller may read, also by the values of a label or a fact.
func (h *Handler) Count(_ context.Context, c *call.Call) (call.Reply, error) {
	reach := c.Principal.OnHosts(access.ReadAgents)
	f, key := h.agentFilter(c, reach), c.Params.Text("group")
	if key != "" && !selector.IsKey(key) {
		c.Params.Fail(call.Invalid("group", "is %.40q: expected one label or fact, such as role, os or fact.rack", key))
	}
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(f.hosts.String())
	if reach.Nowhere() {
		return call.Reply{}, call.Forbidden(access.Missing{Operation: access.ReadAgents})
	}
	all, groups := v1.HostGroup{}, map[string]v1.HostGroup{}
	for a := range h.Directory.After(fleet.Place{}) {
		if !reach.Covers(gate.Host(a)) || !f.matches(&a) || !h.allows(&f, a.Key) {
			continue
		}
		value, _ := a.Select(key)
		g := groups[value]
		g.Value, g.Hosts, all.Hosts = value, g.Hosts+1, all.Hosts+1
		if !h.Directory.Presence(a.Key, h.Now()).Away {
			g.Online, all.Online = g.Online+1, all.Online+1
		}
		groups[value] = g
	}
	v := v1.HostTotals{Hosts: all.Hosts, Online: all.Online}
	if key != "" {
		byValue := func(a, b v1.HostGroup) int { return cmp.Compare(a.Value, b.Value) }
		v.Groups = slices.SortedFunc(maps.Values(groups), byValue)
	}
	c.Audit.Targets = all.Hosts
	return call.OK(v)
}

func (h *Handler) viewHost(a store.Agent) v1.JoinedHost {
	v := v1.JoinedHost{
		Host: h.View(a), Key: a.Key, Name: a.Name, Build: a.Build, JoinedAt: a.Created, Business: a.Business,
		Facts: v1.Facts{
			OS: a.Host.OS, OSVersion: a.Host.Version, Kernel: a.Host.Kernel, Arch: a.Host.Arch, CPUs: a.Host.CPUs,
			Memory: a.Host.Memory, Own: a.Host.Facts,
		},
	}
	for _, m := range a.Host.Disks {
		v.Facts.Disks = append(v.Facts.Disks, v1.Disk(m))
	}
	if labels := a.AllLabels(); len(labels) > 0 {
		v.Labels, v.LabelSources = map[string]string{}, map[string]string{}
		for key, label := range labels {
			v.Labels[key], v.LabelSources[key] = label.Value, label.Source
		}
	}
	p := h.Directory.Presence(a.Key, h.Now())
	v.Policy, v.WantedBuild, v.Upgrade = p.Facts.Policy, p.Facts.Wanted, p.Facts.Upgrade
	if p.Load != (fleet.Load{}) {
		v.Load = &v1.Load{CPU: float64(p.Load.CPU) / 10, Memory: float64(p.Load.Memory) / 10}
	}
	if note := h.Directory.Remarked(a.Key); note != "" {
		v.Notes = append(v.Notes, note)
	}
	for _, dir := range slices.Sorted(maps.Keys(a.Host.Full)) {
		since := time.UnixMilli(a.Host.Full[dir]).UTC().Format(time.RFC3339)
		v.Notes = append(v.Notes, "the file system of "+dir+" has been full since "+since+
			": what processes write is lost, and the agent may accept only stop, kill and unhost")
	}
	v.Notes = append(v.Notes, a.Host.Notes...)
	if rival, there := h.Directory.Rival(a.Key, h.Now()); there {
		v.Notes = append(v.Notes,
			fmt.Sprintf(
				"a second host (%s) uses the key of this host, and the server rejects it: run there: drover-agent join --new-identity", edge.Clip(rival.Name)))
	}
	return v
}
