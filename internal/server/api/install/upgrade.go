package install

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/release"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/operations"
	"drover/internal/server/edge"
	"drover/internal/server/plan"
	"drover/internal/server/store"
	"drover/internal/spec"
)

// upgradeRequest is v1.UpgradeRequest with a list whose decoding stops at its limit.
type upgradeRequest struct {
	Version string            `json:"version"`
	Hosts   call.List[string] `json:"hosts"`
	Select  *string           `json:"select"`
	Rollout *v1.RolloutPlan   `json:"rollout"`
	At      string            `json:"at"`
}

// check returns the chosen hosts and every fault of the request.
func (r *upgradeRequest) check() (choice hosts.Choice, faults processfile.Faults) {
	fail := func(path string, err error) {
		faults = append(faults, processfile.Fault{Path: path, Text: err.Error()})
	}
	if err := release.CheckVersion(r.Version); err != nil {
		fail("version", err)
	}
	choice = hosts.ParseChoice(r.Hosts, r.Select, fail)
	if r.Rollout == nil {
		r.Rollout = &v1.RolloutPlan{}
		r.Rollout.Batch, _ = spec.ParseHostCount("100%") // it is a share
	}
	for _, f := range processfile.CheckRolloutOf(process.Upgrade.Info(), r.Rollout) {
		f.Path = "rollout." + f.Path
		faults = append(faults, f)
	}
	return choice, faults
}

// UpgradeAgents begins a rollout of a version of the agent.
func (h *Handler) UpgradeAgents(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req upgradeRequest
	dry := c.Params.Flag("dry_run")
	check := func() error {
		_, faults := req.check()
		_, err := operations.Beginning(req.At, h.Now())
		return call.Together(call.Faulty(faults), err)
	}
	if err := c.Decode(ctx, &req, check); err != nil {
		return call.Reply{}, err
	}
	choice, faults := req.check()
	c.Audit.Target = edge.Clip(req.Version + " " + choice.String())
	if c.Principal.OnHosts(access.UpgradeAgents).Nowhere() {
		return call.Reply{}, call.Forbidden(access.Missing{Operation: access.UpgradeAgents})
	}
	var missing access.Missing
	agents := h.hosts.HostsForOperation(choice, &c.Principal, access.UpgradeAgents, &missing, &faults)
	if missing.Any() {
		return call.Reply{}, call.Forbidden(missing)
	}
	at, err := operations.Beginning(req.At, h.Now())
	if err := call.Together(call.Faulty(faults), err); err != nil {
		return call.Reply{}, err
	}
	if err := h.available(ctx, req.Version, agents); err != nil {
		return call.Reply{}, err
	}
	op := process.UpgradeOp(req.Version)
	r := h.operations.NewRollout(c, op)
	r.Selector, r.Through = choice.Selector.String(), v1.ThroughOperation
	steps := make([]plan.Step, len(agents))
	for i, a := range agents {
		steps[i] = plan.Step{Op: op, Process: process.AgentID(), Agent: a.Key, Host: hosts.NameOf(a)}
	}
	h.operations.LayRollout(r, req.Rollout, at, steps)
	if dry != nil && *dry {
		target := v1.Target{Namespace: process.AgentID().Namespace, Name: process.AgentID().Name}
		keys := make([]string, len(r.Hosts))
		for i := range r.Hosts {
			target.Hosts, keys[i] = append(target.Hosts, r.Hosts[i].Name), r.Hosts[i].Agent
		}
		p := v1.OperationPlan{Targets: []v1.Target{target}, Away: h.hosts.Away(keys)}
		return h.operations.PlanRollout(ctx, p, r)
	}
	if err := h.operations.StoreRollouts(ctx, c, []*store.Rollout{r}); err != nil {
		return call.Reply{}, err
	}
	return call.Reply{
		Status: http.StatusAccepted, Body: operations.ViewRollout(r), Location: "/rollouts/" + url.PathEscape(r.ID),
	}, nil
}

// available rejects a version unless the server has its whole package for the architecture of each host.
func (h *Handler) available(ctx context.Context, version string, agents []store.Agent) error {
	all, err := h.Packages.ListPackages(ctx)
	if err != nil {
		return call.Failure("read the packages", err)
	}
	state := map[string]string{}
	for i := range all {
		v, readable := viewPackage(&all[i])
		switch {
		case v.Version != version || !readable:
		case len(v.Missing) > 0:
			state[v.Arch] = fmt.Sprintf("package %s/%s lacks %s: add it again", version, v.Arch,
				process.Count(len(v.Missing), "piece", "pieces"))
		default:
			state[v.Arch] = ""
		}
	}
	if len(state) == 0 {
		return call.Invalid("version", "there is no package of version %s: expected one of 'drover packages list'", version)
	}
	for _, a := range agents {
		arch, known := archOf(&a)
		if !known {
			continue // the host judges
		}
		switch why, there := state[arch]; {
		case !there:
			return call.Invalid("version", "there is no package of version %s for %s, as %s needs", version, arch, hosts.NameOf(a))
		case why != "":
			return call.Invalid("version", "%s", why)
		}
	}
	return nil
}
