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

// agentStatus answers GSE's get_agent_status: a map of what is alive, by cloud:ip as it was asked.
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

// listAgentState answers list_agent_state: a row for each id that was asked about, in that order.
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

// agentMap answers with a map of one member for each target; one that is asked for twice is there once.
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

// agentOf returns what is known of a target now, from memory alone.
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
	a.OS, a.Arch, a.CPUs, a.Memory = p.Facts.OS, p.Facts.Arch, p.Facts.CPUs, p.Facts.Memory
	a.Started, a.Seen, a.Linked = millis(p.Facts.Started), millis(p.LastSeen), millis(p.Linked)
	return a
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// upgradeAgents answers upgrade_to_agent_id. What is stored of a host is kept under its agent's own key, so all of it
// is found under either name from then on. The host's own cloud:ip takes an id back.
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

// upgradeAgent reports whether the host is known by the id from now on.
func (s *server) upgradeAgent(ctx context.Context, u gse.Upgrade) (bool, error) {
	agent, found := s.lookup(u.Target)
	if !found {
		return false, nil
	}
	id := u.ID
	if gse.HostOf(id).IP != "" { // its own address
		id = ""
	}
	err := s.Directory.Assign(ctx, agent.Key, id)
	if errors.Is(err, fleet.ErrTaken) || errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// absent is the outcome of whatever is asked of an agent that nobody has heard of.
func absent() *process.Outcome {
	return &process.Outcome{Fault: process.AgentUnavailable, Text: absentText}
}
