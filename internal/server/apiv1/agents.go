package apiv1

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// nameOf returns the name of an agent: its stable id, or cloud:ip.
func nameOf(a store.Agent) string { return fleet.NameOf(a) }

func addressOf(a store.Agent) string { return fleet.Address(a) }

func (h *Handler) viewHost(a store.Agent) v1.Host {
	p := h.Directory.Presence(a.Key, h.Now())
	v := v1.Host{ID: nameOf(a), Cloud: a.Cloud, IP: a.IP, Online: p.Joined && !p.Away}
	if seen := p.LastSeen.UTC(); !p.LastSeen.IsZero() {
		v.LastSeen = &seen
	}
	return v
}

// agentFilter selects among the hosts that a caller may read. A zero field matches all.
type agentFilter struct {
	hosts  hostChoice
	state  string
	area   string
	cloud  int    // the number of area
	search string // in lower case
	build  string
	policy string
	// behind are the areas of a proxy; nil means all.
	behind map[int]bool
}

// The values of the filter policy. A host matches neither before its agent has introduced itself.
const (
	policyNone    = "none"
	policyLimited = "limited"
)

// agentFilter reads the parameters of a filter of hosts.
func (h *Handler) agentFilter(c *call, reach access.Reach) agentFilter {
	p := &c.params
	f := agentFilter{
		hosts: p.hosts(), state: p.choice("state", v1.HostOnline, v1.HostAway), area: p.text("area"),
		search: strings.ToLower(p.text("search")), build: p.text("build"),
		policy: p.choice("policy", policyNone, policyLimited), behind: h.areasBehind(c, reach),
	}
	var err error
	if f.cloud, err = strconv.Atoi(cmp.Or(f.area, "0")); err != nil {
		p.fail(invalid("area", "is %.40q: expected the number of an area", f.area))
	}
	return f
}

// areasBehind reads the parameter proxy, and returns the areas of the proxies with that name; nil without the
// parameter. Only administrators may list proxies: for others, a proxy without a host within reach does not exist.
func (h *Handler) areasBehind(c *call, reach access.Reach) map[int]bool {
	name := c.params.text("proxy")
	if name == "" {
		return nil
	}
	named, areas := map[int]bool{}, map[int]bool{}
	for _, p := range h.proxies() {
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
		c.params.fail(invalid("proxy", "is %.40q: expected the name of a proxy, or a pattern of names", name))
	}
	return areas
}

func (f *agentFilter) matches(a *store.Agent) bool {
	if !f.hosts.matches(a) || f.search != "" && !mentions(a, f.search) {
		return false
	}
	if f.area != "" && a.Cloud != f.cloud || f.build != "" && !wildcard.Match(f.build, a.Build) {
		return false
	}
	return f.behind == nil || f.behind[a.Cloud]
}

// allows reports whether a filter selects an agent by its presence and by what it has told of itself.
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

// listAgents lists the hosts that the caller may read. It builds the list in memory, because presence changes too often
// to be stored.
func (h *Handler) listAgents(_ context.Context, c *call) (reply, error) {
	p := &c.params
	reach := c.Principal.OnHosts(access.ReadAgents)
	f, limit := h.agentFilter(c, reach), p.limit()
	var after fleet.Place
	p.cursor(&after)
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(f.hosts.String())
	if reach.Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.ReadAgents})
	}
	var views []v1.Agent
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
		views, shown = append(views, h.viewAgent(a)), fleet.PlaceOf(a)
	}
	c.Audit.Targets = len(views)
	return ok(pageOf(c, views, last))
}

// countAgents counts the hosts that the caller may read, also by the values of a label or a fact.
func (h *Handler) countAgents(_ context.Context, c *call) (reply, error) {
	reach := c.Principal.OnHosts(access.ReadAgents)
	f, key := h.agentFilter(c, reach), c.params.text("group")
	if key != "" && !selector.IsKey(key) {
		c.params.fail(invalid("group", "is %.40q: expected one label or fact, such as role, os or fact.rack", key))
	}
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(f.hosts.String())
	if reach.Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.ReadAgents})
	}
	all, groups := v1.AgentGroup{}, map[string]v1.AgentGroup{}
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
	v := v1.AgentCounts{Hosts: all.Hosts, Online: all.Online}
	if key != "" {
		byValue := func(a, b v1.AgentGroup) int { return cmp.Compare(a.Value, b.Value) }
		v.Groups = slices.SortedFunc(maps.Values(groups), byValue)
	}
	c.Audit.Targets = all.Hosts
	return ok(v)
}

func (h *Handler) viewAgent(a store.Agent) v1.Agent {
	v := v1.Agent{
		Host: h.viewHost(a), Key: a.Key, Name: a.Name, Build: a.Build, JoinedAt: a.Created, Business: a.Business,
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

// anyMatches reports whether an agent matches one of the patterns; without patterns, every agent does.
func anyMatches(patterns []string, a store.Agent) bool { return a.Named(patterns) }

// hostChoice selects hosts: those that match one of the names, if there are names, and the selector, if there is one.
type hostChoice struct {
	// names are ids, cloud:ip or patterns of either.
	names    []string
	selector selector.Selector
}

// String returns the choice for the audit log.
func (s *hostChoice) String() string {
	return strings.TrimSpace(strings.Join(s.names, " ") + " " + s.selector.String())
}

// any reports whether the choice is every host.
func (s *hostChoice) any() bool { return len(s.names) == 0 && s.selector.IsZero() }

func (s *hostChoice) matches(a *store.Agent) bool { return anyMatches(s.names, *a) && s.selects(a) }

// selects reports whether the labels and facts of a host match the selector.
func (s *hostChoice) selects(a *store.Agent) bool {
	return s.selector.IsZero() || s.selector.Matches(a.Select)
}

// chosen returns the keys of the chosen agents; nil if the choice is every host.
func (h *Handler) chosen(s hostChoice) []string {
	if s.any() {
		return nil
	}
	keys := []string{}
	var wild []string
	for _, p := range s.names {
		switch agent, found := h.Directory.LookupID(p); {
		case found:
			if s.selects(&agent) {
				keys = append(keys, agent.Key)
			}
		case wildcard.IsPattern(p):
			wild = append(wild, p)
		}
	}
	if len(s.names) > 0 && len(wild) == 0 {
		return keys
	}
	for a := range h.Directory.After(fleet.Place{}) {
		if anyMatches(wild, a) && s.selects(&a) {
			keys = append(keys, a.Key)
		}
	}
	return keys
}

// fileChoice is a choice of hosts in a process file, with its field.
type fileChoice struct {
	hostChoice
	field string
}

// choicesIn returns the choices of hosts of a process in a file that was checked.
func choicesIn(hosts v1.Hosts) (list []fileChoice) {
	if hosts.Select != "" {
		s, _ := selector.Parse(hosts.Select) // processfile has checked it
		return []fileChoice{{hostChoice{selector: s}, "hosts.select"}}
	}
	for i, name := range hosts.Names {
		list = append(list, fileChoice{hostChoice{names: []string{name}}, fmt.Sprintf("hosts[%d]", i)})
	}
	return list
}

// visible returns the chosen hosts that are within reach.
func (h *Handler) visible(choice hostChoice, reach access.Reach) (agents []store.Agent) {
	for _, key := range h.chosen(choice) {
		if a, found := h.Directory.ByKey(key); found && reach.Covers(gate.Host(a)) {
			agents = append(agents, a)
		}
	}
	return agents
}

// sameAddress returns a hint about a single name that is an address without its area: the hosts with this address.
func (h *Handler) sameAddress(names []string, reach access.Reach) string {
	if len(names) != 1 {
		return ""
	}
	if _, err := netip.ParseAddr(names[0]); err != nil {
		return ""
	}
	var ids []string
	for _, a := range h.visible(hostChoice{names: []string{"*:" + names[0]}}, reach) {
		ids = append(ids, addressOf(a))
	}
	if len(ids) == 0 {
		return ""
	}
	return ", did you mean " + process.OrList(ids[:min(len(ids), 3)]) + "?"
}

// mentions reports whether a name, a label or a fact of a host holds a text in lower case.
func mentions(a *store.Agent, text string) bool {
	holds := func(value string) bool { return strings.Contains(strings.ToLower(value), text) }
	if slices.ContainsFunc([]string{
		addressOf(*a), a.ID, a.Name, a.Build, a.Host.OS, a.Host.Version, a.Host.Kernel, a.Host.Arch,
	}, holds) {
		return true
	}
	for key, label := range a.AllLabels() {
		if holds(key + "=" + label.Value) {
			return true
		}
	}
	for name, value := range a.Host.Facts {
		if holds(selector.FactPrefix + name + "=" + value) {
			return true
		}
	}
	return false
}

// listTargets lists the hosts that the caller may read for Prometheus (HTTP service discovery of its documentation).
func (h *Handler) listTargets(_ context.Context, c *call) (reply, error) {
	p := &c.params
	hosts, port := p.hosts(), p.number("port", 1, math.MaxUint16)
	if port == 0 {
		p.fail(invalid("port", "is missing: expected the port of the targets, 1 to %d", math.MaxUint16))
	}
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(hosts.String())
	reach := c.Principal.OnHosts(access.ReadAgents)
	if reach.Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.ReadAgents})
	}
	list, weight := []v1.TargetGroup{}, 0
	for a := range h.Directory.After(fleet.Place{}) {
		if !reach.Covers(gate.Host(a)) || !hosts.matches(&a) {
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
	return reply{status: http.StatusOK, body: list, weight: weight}, nil
}

// metaPrefix is the prefix of labels that Prometheus knows while it relabels a target.
const metaPrefix = "__meta_drover_"

// metaLabels returns the names, labels and facts of a host as labels of a target.
func metaLabels(a *store.Agent) map[string]string {
	labels := map[string]string{metaPrefix + "host": nameOf(*a), metaPrefix + "area": strconv.Itoa(a.Cloud)}
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

// labelCharacter returns a character that the name of a label of Prometheus may have.
func labelCharacter(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
		return c
	}
	return '_'
}

// maxLabelled is the largest number of hosts that one call labels.
const maxLabelled = 20_000

// labelAgents sets and removes labels of hosts, of all or of none. A dry run ends after the checks.
func (h *Handler) labelAgents(ctx context.Context, c *call) (reply, error) {
	var req labelRequest
	check := func() error {
		_, faults := req.check()
		return faulty(faults)
	}
	dry := c.params.flag("dry_run")
	if err := c.decode(ctx, &req, check); err != nil {
		return reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(req) // it was decoded from JSON
	if c.Principal.OnHosts(access.LabelAgents).Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.LabelAgents})
	}
	choice, faults := req.check()
	c.Audit.Target = edge.Clip(choice.String())
	var missing access.Missing
	agents := h.named(choice, &c.Principal, access.LabelAgents, &missing, &faults)
	switch {
	case missing.Any():
		return reply{}, forbidden(missing)
	case len(faults) > 0:
		return reply{}, invalidFile("", faults)
	}
	c.Audit.Targets = len(agents)
	reselected, err := h.reselected(ctx, c, agents, &req)
	if err != nil {
		return reply{}, err
	}
	keys, done := make([]string, len(agents)), v1.Labelled{Hosts: make([]string, len(agents)), Reselected: reselected}
	for i, a := range agents {
		keys[i], done.Hosts[i] = a.Key, nameOf(a)
		if fleet.SameLabels(a, fleet.Relabelled(a, req.Set, req.Remove)) {
			done.Unchanged++
		}
	}
	c.Audit.Targets -= done.Unchanged
	if dry != nil && *dry || done.Unchanged == len(agents) {
		return ok(done)
	}
	err = h.Labels.Label(ctx, keys, req.Set, req.Remove)
	if full, ok := errors.AsType[*fleet.LabelsError](err); ok {
		return reply{}, invalid("set", "%v", full)
	}
	if errors.Is(err, store.ErrNotFound) {
		return reply{}, problemf(http.StatusConflict, "a host was removed meanwhile: try again")
	}
	if err != nil {
		return reply{}, failure("label the hosts", err)
	}
	return ok(done)
}

// labelRequest is v1.LabelRequest with lists that stop decoding at their limits.
type labelRequest struct {
	Hosts  list[string]      `json:"hosts,omitempty"`
	Select *string           `json:"select,omitempty"`
	Set    map[string]string `json:"set,omitempty"`
	Remove list[string]      `json:"remove,omitempty"`
}

// check returns the chosen hosts and every fault of the request.
func (r *labelRequest) check() (choice hostChoice, faults processfile.Faults) {
	fail := func(path string, err error) {
		faults = append(faults, processfile.Fault{Path: path, Text: err.Error()})
	}
	choice = chosenHosts(r.Hosts, r.Select, fail)
	if len(r.Set)+len(r.Remove) == 0 {
		fail("set", errors.New("is missing: expected labels to set, or remove"))
	}
	if len(r.Remove) > selector.MaxLabels {
		fail("remove", fmt.Errorf("has %d entries: expected at most %d", len(r.Remove), selector.MaxLabels))
		return choice, faults
	}
	for _, err := range selector.CheckLabels(r.Set) {
		fail("set", err)
	}
	for i, key := range r.Remove {
		path := fmt.Sprintf("remove[%d]", i)
		if err := selector.CheckKey(key); err != nil {
			fail(path, err)
		} else if _, both := r.Set[key]; both {
			fail(path, fmt.Errorf("the label %s is in set, too", key))
		}
	}
	return choice, faults
}

// named returns the chosen hosts for an operation on hosts: those of the names, and those within reach that match a
// pattern or the selector. It adds a fault for each name without a host, and notes the missing right to a named host,
// or to as many hosts.
func (h *Handler) named(choice hostChoice, who *access.Principal, op access.Operation, missing *access.Missing,
	faults *processfile.Faults,
) (agents []store.Agent) {
	reach, faulty := who.OnHosts(op), len(*faults) > 0
	fail := func(path, format string, args ...any) {
		*faults = append(*faults, processfile.Fault{Path: path, Text: fmt.Sprintf(format, args...)})
	}
	patterns := 0
	for i, name := range choice.names {
		a, found := h.Directory.LookupID(name)
		path := fmt.Sprintf("hosts[%d]", i)
		switch {
		case found:
			missing.Check(reach, "", gate.Host(a))
		case wildcard.IsPattern(name):
			if patterns++; patterns > mostPatterns {
				fail(path, "is one pattern too many: expected at most %d patterns", mostPatterns)
				return nil
			}
		case reach.Covers(namedHost(name)):
			fail(path, "is %.100q: there is no such host%s", name, h.sameAddress(choice.names[i:i+1], reach))
		default:
			missing.Found(op, "", edge.Clip(name))
		}
	}
	if faulty { // the expression may be one of the faults
		return nil
	}
	seen := map[string]bool{}
	for _, key := range h.chosen(choice) {
		if a, known := h.Directory.ByKey(key); known && !seen[key] && reach.Covers(gate.Host(a)) {
			seen[key] = true
			agents = append(agents, a)
		}
	}
	whole := *who
	whole.Targets = len(agents)
	may := whole.OnHosts(op)
	for i := range agents {
		missing.Check(may, "", gate.Host(agents[i]))
	}
	switch {
	case len(*faults) > 0:
	case len(agents) == 0:
		fail("hosts", "no host matches %s", choice.String())
	case len(agents) > maxLabelled:
		fail("hosts", "are %d hosts: expected at most %d in one call", len(agents), maxLabelled)
	}
	return agents
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
	a, known := h.knownHost(id)
	if !known {
		return reply{}, problemf(http.StatusNotFound, "there is no host %q", edge.Clip(id))
	}
	c.Audit.Target = edge.Clip(addressOf(a) + " " + a.Key)
	if err := h.Joining.Enroller.Remove(ctx, a.Key, h.changeBy(c).By); err != nil {
		return reply{}, stored(err, "host", id)
	}
	return reply{status: http.StatusNoContent}, nil
}
