package httpapi

import (
	"context"
	"errors"
	"time"

	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
)

// agentStatus answers GSE's get_agent_status: a map of the agents' liveness, by cloud:ip as the caller wrote it.
func (s *server) agentStatus(_ context.Context, c *call) (payload, error) {
	return s.agentMap(c, gse.ReadAgentHosts, func(a gse.Agent) any { return gse.AliveOf(a) })
}

// agentInfo answers get_agent_info.
func (s *server) agentInfo(_ context.Context, c *call) (payload, error) {
	return s.agentMap(c, gse.ReadAgentHosts, func(a gse.Agent) any { return gse.VersionOf(a) })
}

// jobAgentStatus answers JOB's get_agent_status: a list.
func (s *server) jobAgentStatus(_ context.Context, c *call) (payload, error) {
	return s.agentList(c, gse.ReadJobAgents, func(a gse.Agent) any { return gse.AliveOf(a) })
}

// listAgentState answers list_agent_state: a row for each requested id, in the order of the request.
func (s *server) listAgentState(_ context.Context, c *call) (payload, error) {
	return s.agentList(c, gse.ReadAgentIDs, func(a gse.Agent) any { return gse.StateOf(a) })
}

// listAgentInfo answers list_agent_info.
func (s *server) listAgentInfo(_ context.Context, c *call) (payload, error) {
	now := s.Now().UnixMilli()
	return s.agentList(c, gse.ReadAgentIDs, func(a gse.Agent) any { return gse.InfoOf(a, now) })
}

// agentList answers with a list of one row for each target.
func (s *server) agentList(c *call, read func([]byte) ([]gse.Target, error), row func(gse.Agent) any) (payload, error) {
	targets, err := s.readAgents(c, read)
	if err != nil {
		return nil, err
	}
	return func(w *jsonWriter) error {
		seq := sequence{w: w}
		w.raw("[")
		for _, t := range targets {
			if err := seq.element(row(s.agentOf(t))); err != nil {
				return err
			}
		}
		w.raw("]")
		return nil
	}, nil
}

// agentMap answers with a map of one member for each target. A repeated target has one member.
func (s *server) agentMap(c *call, read func([]byte) ([]gse.Target, error),
	value func(gse.Agent) any,
) (payload, error) {
	targets, err := s.readAgents(c, read)
	if err != nil {
		return nil, err
	}
	return func(w *jsonWriter) error {
		seq, written := sequence{w: w}, make(map[string]bool, len(targets))
		w.raw("{")
		for _, t := range targets {
			if written[t.Key] {
				continue
			}
			written[t.Key] = true
			if err := seq.member(t.Key, value(s.agentOf(t))); err != nil {
				return err
			}
		}
		w.raw("}")
		return nil
	}, nil
}

func (s *server) readAgents(c *call, read func([]byte) ([]gse.Target, error)) ([]gse.Target, error) {
	targets, err := read(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	c.Audit.Target, c.Audit.Targets = edge.Clip(targets[0].Asked()), len(targets)
	return targets, s.mayUseAgents(c, access.ReadAgents, targets)
}

// agentOf returns the current state of a target, from memory only.
func (s *server) agentOf(t gse.Target) gse.Agent {
	a := gse.Agent{Asked: t.Asked(), Host: t.Host}
	agent, found := s.lookup(t)
	if !found {
		if t.AgentID != "" {
			a.Host = gse.HostOf(t.AgentID)
		}
		return a
	}
	if t.AgentID != "" {
		a.Host = hostOf(agent)
	}
	p := s.Directory.Presence(agent.Key, s.Now())
	a.Known, a.Present, a.Version = true, !p.Away, agent.Build
	a.OS, a.Arch, a.CPUs, a.Memory = agent.Host.System, agent.Host.Arch, agent.Host.CPUs, agent.Host.Memory
	a.CPURate, a.MemRate = float64(p.Load.CPU)/10, float64(p.Load.Memory)/10
	a.Started, a.Seen, a.Linked = millis(p.Facts.Started), millis(p.LastSeen), millis(p.Linked)
	return a
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// upgradeAgents answers upgrade_to_agent_id. The store keeps the data of a host under its agent's key, so afterwards
// both names find all of it. The host's own cloud:ip removes an id.
func (s *server) upgradeAgents(ctx context.Context, c *call) (payload, error) {
	upgrades, err := gse.ReadUpgrade(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	c.Audit.Target, c.Audit.Targets = edge.Clip(upgrades[0].Target.Asked()+" as "+upgrades[0].ID), len(upgrades)
	targets := make([]gse.Target, len(upgrades))
	for i, u := range upgrades {
		targets[i] = u.Target
	}
	if err := s.mayUseAgents(c, access.RenameAgents, targets); err != nil {
		return nil, err
	}
	reply := struct {
		Success []string `json:"success"`
		Failed  []string `json:"failed"`
	}{Success: []string{}, Failed: []string{}}
	for _, u := range upgrades {
		done, err := s.upgradeAgent(ctx, u)
		switch {
		case err != nil:
			return nil, failure("store the agent ids", err)
		case done:
			reply.Success = append(reply.Success, u.Target.Key)
		default:
			reply.Failed = append(reply.Failed, u.Target.Key)
		}
	}
	if len(reply.Failed) > 0 {
		c.Audit.Message = edge.Clip("failed for " + reply.Failed[0])
	}
	return value(reply), nil
}

// upgradeAgent gives the host the id, and reports whether it did.
func (s *server) upgradeAgent(ctx context.Context, u gse.Upgrade) (bool, error) {
	agent, found := s.lookup(u.Target)
	if !found {
		return false, nil
	}
	id := u.ID
	if gse.HostOf(id).IP != "" { // the host's own address
		id = ""
	}
	err := s.Directory.Assign(ctx, agent.Key, id, s.Now())
	if errors.Is(err, fleet.ErrTaken) || errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// unknownAgent returns the outcome of a request to an unknown agent.
func unknownAgent() *process.Outcome {
	return &process.Outcome{Fault: process.AgentUnavailable, Text: absentText}
}
