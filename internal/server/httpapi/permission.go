package httpapi

import (
	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/audit"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// permissionCheck collects the missing rights of a call, so that one refusal can name them all. A call is all or
// nothing: if one of ten hosts is forbidden, the server does nothing and names the missing right.
type permissionCheck struct {
	c       *call
	missing access.Missing
}

// refusal returns the refusal that names the missing rights, or nil.
func (p *permissionCheck) refusal() error {
	if !p.missing.Any() {
		return nil
	}
	return lacks(p.c, p.missing)
}

// lacks is the refusal of a call that lacks rights.
func lacks(c *call, m access.Missing) error {
	what := audit.Clip(m.What(), 600)
	if m.More > 0 && m.Limit == 0 {
		return refusef(forbidden, "app %s has no right to %s (and %d more)", c.Principal.App, what, m.More)
	}
	return refusef(forbidden, "app %s has no right to %s", c.Principal.App, what)
}

// rightsHost returns a target for the check of rights: with all data of the agent, or for an unknown agent with the
// names that the caller gave.
func rightsHost(t gse.Target, agent store.Agent, found bool) access.Host {
	switch {
	case found:
		return gate.Host(agent)
	case t.AgentID == "":
		return access.Host{Area: t.Host.Cloud, IP: t.Host.IP}
	}
	if h := gse.HostOf(t.AgentID); h.IP != "" {
		return access.Host{Area: h.Cloud, IP: h.IP}
	}
	return access.Host{Area: access.NoArea, ID: t.AgentID}
}

// mayOnTargets returns a refusal unless the app has the right of reach to the subject on all targets.
func (s *server) mayOnTargets(c *call, reach access.Reach, subject string, targets []gse.Target) error {
	if reach.Everywhere() {
		return nil
	}
	r := permissionCheck{c: c}
	for _, t := range targets {
		agent, found := s.lookup(t)
		r.missing.Check(reach, subject, rightsHost(t, agent, found))
	}
	return r.refusal()
}

// mayUseAgents returns a refusal unless the app may do op to all of the hosts.
func (s *server) mayUseAgents(c *call, op access.Operation, targets []gse.Target) error {
	c.Principal.Targets = len(targets)
	return s.mayOnTargets(c, c.Principal.OnHosts(op), "", targets)
}

// mayUseGroups returns a refusal unless the app may do op to the groups of the namespace on all targets.
func (s *server) mayUseGroups(c *call, op access.Operation, namespace string, targets []gse.Target) error {
	c.Principal.Targets = len(targets)
	return s.mayOnTargets(c, c.Principal.On(op, namespace), namespace, targets)
}

// mayReadNamespace returns a refusal unless the app may query the namespace on every host. A page of a part would look
// like a page of the whole.
func (c *call) mayReadNamespace(namespace string) error {
	op := access.OperationOf(process.Query)
	if c.Principal.On(op, namespace).Everywhere() {
		return nil
	}
	r := permissionCheck{c: c}
	r.missing.Found(op, namespace, "every host")
	return r.refusal()
}

// viewHost returns the host of an item, for the check of rights.
func (s *server) viewHost(v store.ItemView) access.Host {
	if v.IP == "" { // no agent had the name that the caller gave
		return rightsHost(gse.Target{AgentID: v.Spelling}, store.Agent{}, false)
	}
	if agent, found := s.Directory.Lookup(v.Cloud, v.IP); found {
		return rightsHost(gse.Target{}, agent, true)
	}
	return access.Host{Area: v.Cloud, IP: v.IP, ID: v.AgentID}
}
