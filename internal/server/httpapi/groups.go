package httpapi

import (
	"context"
	"slices"

	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/store"
)

// setGroups answers set_process_group_info. It stores the groups of a namespace as the desired groups of each known
// host, and then sends them like any operation. An offline host gets them when it reconnects.
func (s *server) setGroups(ctx context.Context, c *call) (payload, error) {
	setting, err := gse.ReadSetGroups(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	namespace, ops := setting.ID.Namespace, []gse.Operation{setting.Operation}
	c.describe(ops, len(setting.Targets), "")
	if err := s.mayUseGroups(c, access.SetGroup, namespace, setting.Targets); err != nil {
		return nil, err
	}
	if setting.Problem == nil {
		var hosts []store.GroupHost
		for _, t := range setting.Targets {
			if agent, found := s.lookup(t); found {
				hosts = append(hosts, store.GroupHost{Agent: agent.Key, Namespace: namespace})
			}
		}
		if err := s.Groups.PutGroups(ctx, hosts, setting.Groups); err != nil {
			return nil, failure("store the groups", err)
		}
	}
	return s.submitAndWait(ctx, c, ops, setting.Groups)
}

// getGroups answers get_process_group_info: a row for each group of each host, and no row for a host without groups.
func (s *server) getGroups(ctx context.Context, c *call) (payload, error) {
	namespace, targets, err := gse.ReadGetGroups(c.params)
	if err != nil {
		return nil, badParameters(err)
	}
	c.Audit.Target, c.Audit.Targets = edge.Clip(namespace), len(targets)
	if err := s.mayUseGroups(c, access.GetGroup, namespace, targets); err != nil {
		return nil, err
	}
	hosts := s.indexTargets(targets)
	usage, err := s.Groups.GroupUsage(ctx, namespace, hosts.agents)
	if err != nil {
		return nil, failure("read the usage of the groups", err)
	}
	return func(w *jsonWriter) error {
		seq := sequence{w: w}
		w.raw(`{"process_group_infos":[`)
		type row struct {
			agent string
			group process.Group
		}
		for agents := range slices.Chunk(hosts.agents, atATime) {
			var rows []row
			err := s.Groups.GetGroups(ctx, namespace, agents, func(agent string, g process.Group) error {
				rows = append(rows, row{agent, g})
				return nil
			})
			if err != nil {
				return failure("read the groups", err)
			}
			for _, r := range rows {
				for _, a := range hosts.byAgent[r.agent] {
					if err := seq.element(gse.GroupRowOf(namespace, a.host(), r.group,
						gse.GroupUsage(usage[r.agent]))); err != nil {
						return err
					}
				}
			}
		}
		w.raw("]}")
		return nil
	}, nil
}
