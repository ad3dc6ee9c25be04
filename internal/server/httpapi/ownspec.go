package httpapi

import (
	"context"

	"drover/internal/gse"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/store"
)

// byRight splits a request by the right of the app to use its own spec. An own spec decides what runs, so it needs the
// right to start, unless it equals the stored spec. A query without that right continues without the spec, so that it
// asks about the stored spec.
func (s *server) byRight(ctx context.Context, r *store.Request, targets []gse.Target,
	may *permissionCheck,
) ([]store.Request, error) {
	reach := may.c.Principal.Sets(r.Process.Namespace)
	if r.Spec == nil || reach.Everywhere() {
		return []store.Request{*r}, nil
	}
	free := *r
	free.Targets = nil
	bound := store.Request{Op: r.Op, Process: r.Process, ReportedSpec: r.Spec}
	var hosts []access.Host
	var agents []string
	for i, t := range r.Targets {
		agent, found := s.lookup(targets[i])
		if host := rightsHost(targets[i], agent, found); ended(&t, found) || reach.Covers(host) {
			free.Targets = append(free.Targets, t)
		} else {
			bound.Targets, hosts = append(bound.Targets, t), append(hosts, host)
			agents = append(agents, t.Agent)
		}
	}
	if len(bound.Targets) == 0 {
		return []store.Request{*r}, nil
	}
	if r.Op != process.Query {
		stored := map[string]bool{}
		err := s.Observations.GetObserved(ctx, r.Process, agents, func(o store.Observed) error {
			stored[o.Agent] = o.Spec.Same(r.Spec)
			return nil
		})
		if err != nil {
			return nil, err
		}
		own := may.c.Principal.On(access.OperationOf(r.Op), r.Process.Namespace)
		for i, t := range bound.Targets {
			if !stored[t.Agent] && own.Covers(hosts[i]) { // otherwise that check has failed already
				may.missing.Check(reach, r.Process.String(), hosts[i])
			}
		}
	}
	if r.Op.Info().Spec == process.SpecSent {
		return []store.Request{*r}, nil
	}
	if len(free.Targets) == 0 {
		return []store.Request{bound}, nil
	}
	return []store.Request{free, bound}, nil
}

// ended reports whether no agent will execute the operation of a target, although the host is known.
func ended(t *store.Target, found bool) bool { return t.Outcome != nil && found }
