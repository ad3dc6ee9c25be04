package operations

import (
	"net/http"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// CheckBreadth rejects an operation or an apply (store.OpApply) that reaches more hosts at once than one person may
// change.
func (h *Handler) CheckBreadth(hosts int, op process.Op) error {
	if h.Breadth == 0 || hosts <= h.Breadth {
		return nil
	}
	p := call.Problemf(http.StatusForbidden,
		"the call is for %d hosts, and above %d this server demands the approval of a second person: use a rollout",
		hosts, h.Breadth)
	if op != store.OpApply && !op.Info().RollsOut {
		p = call.Problemf(http.StatusForbidden,
			"the call is for %d hosts, and above %d this server demands the approval of a second person: "+
				"use an apply with a rollout, because %s has none", hosts, h.Breadth, op)
	}
	p.Broad = true
	return p
}

// onAll reports whether may is true for each step of a rollout on each of its hosts. A host that has left the fleet
// does not count, unless all have left.
func (h *Handler) onAll(r *store.Rollout, may func(step *store.RolloutStep, host access.Host) bool) bool {
	here := false
	for i := range r.Hosts {
		x := &r.Hosts[i]
		agent, joined := h.Directory.ByKey(x.Agent)
		if !joined {
			continue
		}
		here = true
		for _, at := range x.Steps {
			if !may(&r.Steps[at], gate.Host(agent)) {
				return false
			}
		}
	}
	return here
}

// mayRollOut reports whether a caller may carry out each step of a rollout on each of its hosts.
func (h *Handler) mayRollOut(who *access.Principal, r *store.Rollout) bool {
	whole := *who
	for i := range r.Hosts {
		whole.Targets += len(r.Hosts[i].Steps)
	}
	reaches := access.NewReaches(whole)
	return h.onAll(r, func(s *store.RolloutStep, host access.Host) bool {
		covers := reaches.On(access.OperationOf(s.Op), s.Process.Namespace).Covers(host)
		if r.Op == store.OpApply && !s.Removes { // it brings a spec
			covers = covers && reaches.Sets(s.Process.Namespace).Covers(host)
		}
		return covers
	})
}

// Without returns the keys of a list that another list does not have.
func Without(keys, others []store.ObservedKey) (rest []store.ObservedKey) {
	has := map[store.ObservedKey]bool{}
	for _, key := range others {
		has[key] = true
	}
	for _, key := range keys {
		if !has[key] {
			rest = append(rest, key)
		}
	}
	return rest
}

// MayApply checks the rights to all steps: the right to the operation, and for a step that brings a spec the rights to
// decide what runs.
func (h *Handler) MayApply(c *call.Call, steps []plan.Step) error {
	who, targets := c.Principal, map[store.ObservedKey]bool{}
	for _, s := range steps {
		targets[store.ObservedKey{Agent: s.Agent, Process: s.Process}] = true
	}
	who.Targets = len(targets)
	var missing access.Missing
	reaches := access.NewReaches(who)
	for _, s := range steps {
		agent, _ := h.Directory.ByKey(s.Agent)
		needed := []access.Reach{reaches.On(access.OperationOf(s.Op), s.Process.Namespace)}
		if s.Spec != nil {
			needed = append(needed, reaches.Sets(s.Process.Namespace))
		}
		for _, reach := range needed {
			missing.Check(reach, s.Process.String(), gate.Host(agent))
		}
	}
	if missing.Any() {
		return call.Forbidden(missing)
	}
	return nil
}
