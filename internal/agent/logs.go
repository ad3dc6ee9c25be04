package agent

import (
	"context"

	"drover/internal/process"
	"drover/internal/wire"
)

// boundLog sets how much the log of a process may hold.
func (a *Agent) boundLog(id process.ID) {
	if spec, _ := a.super.Spec(id); spec != nil && spec.Foreground() {
		a.logs.Bound(id, spec)
	}
}

// Answer implements orders.Logs.
func (a *Agent) Answer(ctx context.Context, q wire.LogQuestion) wire.LogAnswer {
	spec, _ := a.super.Spec(q.Process)
	if spec == nil {
		return wire.LogAnswer{Error: "the process is not registered on this host"}
	}
	if err := a.mayReadLog(q.Process, spec); err != nil {
		return wire.LogAnswer{Error: err.Error()}
	}
	return a.logs.Answer(ctx, q)
}

// mayReadLog returns nil if the policy of this host allows the server to see what a process writes.
func (a *Agent) mayReadLog(id process.ID, spec *process.Spec) error {
	if err := a.policy.Allow(id, process.Query, spec); err != nil {
		return err
	}
	return a.policy.MayLook(id, spec)
}
