package hosts

import (
	"context"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// ListTargets lists the hosts that the caller may read for Prometheus (HTTP service discovery of its documentation).
func (h *Handler) ListTargets(_ context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	hosts, port := ChoiceOf(p), p.Number("port", 1, math.MaxUint16)
	if port == 0 {
		p.Fail(call.Invalid("port", "is missing: expected the port of the targets, 1 to %d", math.MaxUint16))
	}
	if err := p.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(hosts.String())
	reach := c.Principal.OnHosts(access.ReadAgents)
	if reach.Nowhere() {
		return call.Reply{}, call.Forbidden(access.Missing{Operation: access.ReadAgents})
	}
	list, weight := []v1.TargetGroup{}, 0
	for a := range h.Directory.After(fleet.Place{}) {
		if !reach.Covers(gate.Host(a)) || !hosts.Matches(&a) {
			continue
		}
		g := v1.TargetGroup{
			Targets: []string{net.JoinHostPort(a.IP, strconv.Itoa(port))}, Labels: metaLabels(&a),
		}
		g.Labels[metaPrefix+"online"] = strconv.FormatBool(!h.Directory.Presence(a.Key, h.Now()).Away)
		for name, value := range g.Labels {
			weight += len(name) + len(value)
		}
		list = append(list, g)
	}
	c.Audit.Targets = len(list)
	return call.Reply{Status: http.StatusOK, Body: list, Weight: weight}, nil
}

// metaPrefix is the prefix of labels that Prometheus drops after it has relabelled a target.
const metaPrefix = "__meta_drover_"

// metaLabels returns the names, labels and facts of a host as labels of a target.
func metaLabels(a *store.Agent) map[string]string {
	labels := map[string]string{metaPrefix + "host": NameOf(*a), metaPrefix + "area": strconv.Itoa(a.Cloud)}
	add := func(kind, name, value string) {
		if value != "" {
			labels[metaPrefix+kind+strings.Map(labelCharacter, name)] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Host.Facts)) {
		add("fact_", name, a.Host.Facts[name])
	}
	// drover's own facts override the host's facts of the same name.
	for _, key := range []string{
		selector.OS, selector.OSVersion, selector.Kernel, selector.Arch, selector.AgentVersion,
	} {
		value, _ := a.Select(key)
		add("fact_", key, value)
	}
	all := a.AllLabels()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		add("label_", key, all[key].Value)
	}
	return labels
}
