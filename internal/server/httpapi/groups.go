package httpapi

import (
	"context"

	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// setGroups answers set_process_group_info: the groups of a namespace are stored for each host that is known.
func (s *server) setGroups(ctx context.Context, c *call) (payload, error) {
	setting, err := gse.ReadSetGroups(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	c.audit.Target, c.audit.Targets = clip(setting.Targets[0].Namespace, 200), len(setting.Targets)
	if err := s.mayUseGroups(c, access.SetGroup, setting.Targets); err != nil {
		return nil, err
	}
	var hosts []store.GroupHost
	known := make(map[string]bool, len(setting.Targets)) // by result key
	for _, t := range setting.Targets {
		if agent, found := s.lookup(t.Target); found {
			known[t.Key] = true
			hosts = append(hosts, store.GroupHost{Agent: agent.Key, Namespace: t.Namespace})
		}
	}
	if setting.Problem == nil {
		if err := s.Groups.PutGroups(ctx, hosts, storedGroups(setting.Groups)); err != nil {
			return nil, failure("store the groups", err)
		}
	}
	return func(w *jsonWriter) error {
		seq, written := sequence{w: w}, make(map[string]bool, len(setting.Targets))
		w.raw("{")
		for _, t := range setting.Targets {
			if written[t.Key] {
				continue
			}
			written[t.Key] = true
			if err := seq.member(t.Key, gse.RegistrationResult(gse.Item{Outcome: groupOutcome(setting.Problem, known[t.Key])}, "")); err != nil {
				return err
			}
		}
		w.raw("}")
		return nil
	}, nil
}

func groupOutcome(problem *process.Error, known bool) *process.Outcome {
	switch {
	case problem != nil:
		return &process.Outcome{Fault: problem.Fault, Text: problem.Text}
	case !known:
		return absent()
	default:
		return &process.Outcome{Text: process.Success}
	}
}

// getGroups answers get_process_group_info: a row for each group of each host; a host without groups has none.
func (s *server) getGroups(ctx context.Context, c *call) (payload, error) {
	targets, err := gse.ReadGetGroups(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	namespace := targets[0].Namespace
	c.audit.Target, c.audit.Targets = clip(namespace, 200), len(targets)
	if err := s.mayUseGroups(c, access.GetGroup, targets); err != nil {
		return nil, err
	}
	var agents []string
	asked := map[string][]gse.Host{} // by agent
	for _, t := range targets {
		agent, found := s.lookup(t.Target)
		if !found {
			continue
		}
		if len(asked[agent.Key]) == 0 {
			agents = append(agents, agent.Key)
		}
		host := t.Host
		if t.AgentID != "" {
			host = hostOf(agent)
		}
		asked[agent.Key] = append(asked[agent.Key], host)
	}
	return func(w *jsonWriter) error {
		seq := sequence{w: w}
		w.raw(`{"process_group_infos":[`)
		err := s.Groups.GetGroups(ctx, namespace, agents, func(agent string, g store.Group) error {
			for _, host := range asked[agent] {
				if err := seq.element(gse.GroupRowOf(namespace, host, wireGroup(g))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return failure("read the groups", err)
		}
		w.raw("]}")
		return nil
	}, nil
}

func storedGroups(groups []gse.Group) []store.Group {
	out := make([]store.Group, len(groups))
	for i, g := range groups {
		l := g.Limits
		out[i] = store.Group{ID: g.ID, CPULimit: l.CPULimit, MemLimit: l.MemLimit, CPUWeight: l.CPUWeight, MemWeight: l.MemWeight}
	}
	return out
}

func wireGroup(g store.Group) gse.Group {
	return gse.Group{ID: g.ID, Limits: gse.GroupLimits{CPULimit: g.CPULimit, MemLimit: g.MemLimit, CPUWeight: g.CPUWeight, MemWeight: g.MemWeight}}
}
