package processes

import (
	"context"

	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// Reported returns the processes of a namespace with the specs that their hosts have reported, as far as the caller may
// query them.
func (h *Handler) Reported(ctx context.Context, c *call.Call, namespace string) (all []plan.Known, err error) {
	reach, err := call.MayRead(c, namespace)
	if err != nil {
		return nil, err
	}
	was := h.SnapshotAgents()
	err = h.EachObserved(ctx, store.ObservedFilter{Namespace: namespace, Spec: true}, func(o *store.Observed) {
		agent, found := h.Directory.ByKey(o.Agent)
		if found && o.Spec != nil && o.Process.Namespace == namespace && reach.Covers(gate.Host(agent)) {
			all = append(all, plan.Known{
				Process: o.Process, Agent: o.Agent, Host: hosts.NameOf(agent), Spec: o.Spec, Status: o.Status,
				Untold: was.untold[o.Agent] || h.Directory.Presence(o.Agent, h.Now()).Untold,
			})
		}
	})
	return all, err
}
