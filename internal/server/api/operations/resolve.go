package operations

import (
	"context"
	"fmt"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/processes"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// takeSelection makes the processes of a selection the targets of a request.
func (h *Handler) takeSelection(ctx context.Context, c *call.Call, req *Request) (*processes.Selected, error) {
	s, err := h.processes.HeldSelection(ctx, &c.Principal, req.Selection)
	switch {
	case err != nil:
		return nil, err
	case len(s.Targets) == 0:
		return nil, call.Invalid("selection", "has no processes")
	}
	req.Targets = s.Targets
	return s, nil
}

// leavingOut returns the answer with LeftOut set to n, the number of processes that the selection leaves out.
func leavingOut(answer any, n int) any {
	switch body := answer.(type) {
	case v1.Task:
		body.LeftOut = n
		return body
	case v1.Rollout:
		body.LeftOut = n
		return body
	}
	return answer
}

// reached returns the agents of a target. hidden describes the hosts outside the caller's reach for a rejection, which
// tells nothing else about these hosts.
func (h *Handler) reached(ctx context.Context, req *Request, at int,
	reach access.Reach,
) (agents []store.Agent, hidden string, err error) {
	t := &req.Targets[at]
	agents, stranger, err := h.agentsOf(ctx, req, t, reach)
	field := fmt.Sprintf("targets[%d]", at)
	switch {
	case err != nil:
		return nil, "", err
	case stranger >= 0 && reach.Covers(hosts.NamedHost(t.Hosts[stranger])):
		return nil, "", call.Invalid(fmt.Sprintf("%s.hosts[%d]", field, stranger), "there is no host %.100q",
			t.Hosts[stranger])
	case stranger >= 0:
		return nil, edge.Clip(t.Hosts[stranger]), nil
	case len(t.Hosts) == 0 && !coversAll(reach, agents): // the caller does not learn where else the process is
		return nil, "every host that knows it", nil
	case len(agents) == 0 && req.Select != nil:
		return nil, "", call.Invalid("select", "no host of process %q matches %s", t.ID().String(), req.choice.Selector)
	case len(agents) == 0:
		return nil, "", call.Invalid(field, "no host knows a process %q: name the hosts", t.ID().String())
	}
	return agents, "", nil
}

// resolve finds the agents of every target and checks the rights to them. It returns the requests and their number of
// items.
func (h *Handler) resolve(ctx context.Context, who *access.Principal, req *Request) (
	[]store.Request, int, error,
) {
	requests, items, err := h.resolveOf(ctx, who, who, req)
	if err != nil || !who.Exceeds(items) {
		return requests, items, err
	}
	whole := *who
	whole.Targets = items
	return h.resolveOf(ctx, who, &whole, req)
}

// resolveOf is resolve with separate rights: who decides which hosts the request finds, and whole which operations are
// allowed there.
func (h *Handler) resolveOf(ctx context.Context, who, whole *access.Principal, req *Request) (
	[]store.Request, int, error,
) {
	right := access.OperationOf(req.Op)
	var missing access.Missing
	requests := requestsOf{op: req, place: map[requestKind]int{}}
	seen := map[store.ObservedKey]bool{}
	for i := range req.Targets {
		t := &req.Targets[i]
		id := t.ID()
		reach := who.On(right, id.Namespace)
		if reach.Nowhere() { // a caller without rights must not learn whether a process or host exists
			missing.Found(right, id.String(), "")
			continue
		}
		agents, hidden, err := h.reached(ctx, req, i, reach)
		if err != nil {
			return nil, 0, err
		}
		if hidden != "" {
			missing.Found(right, id.String(), hidden)
			continue
		}
		bound, err := h.boundBy(ctx, whole, req, id, agents)
		if err != nil {
			return nil, 0, err
		}
		may := whole.On(right, id.Namespace)
		for _, a := range agents {
			key := store.ObservedKey{Agent: a.Key, Process: id}
			if seen[key] { // the same host by another name
				continue
			}
			seen[key] = true
			stored, narrow := bound[a.Key]
			if host := gate.Host(a); may.Covers(host) && narrow && !stored { // the caller's own spec decides what runs
				missing.Check(whole.Sets(id.Namespace), id.String(), host)
			} else {
				missing.Check(may, id.String(), host)
			}
			r := requests.of(requestKind{id, stored})
			name := hosts.NameOf(a)
			r.Targets = append(r.Targets, store.Target{ItemKey: store.ItemKey(id, name), Spelling: name, Agent: a.Key})
		}
		if len(seen) > call.MaxItems {
			return nil, 0, call.Invalid("targets", "make more than %d operations in all", call.MaxItems)
		}
	}
	if missing.Any() {
		return nil, 0, call.Forbidden(missing)
	}
	return requests.list, len(seen), nil
}

// requestsOf holds the requests of an operation: one for each process and each kind of spec.
type requestsOf struct {
	op    *Request
	list  []store.Request
	place map[requestKind]int
}

// requestKind distinguishes the requests. stored means that the given spec equals the stored spec, and so needs no
// right to decide what runs.
type requestKind struct {
	process.ID
	stored bool
}

func (r *requestsOf) of(k requestKind) *store.Request {
	i, ok := r.place[k]
	if !ok {
		i = len(r.list)
		r.place[k] = i
		r.list = append(r.list, store.Request{Op: r.op.Op, Process: k.ID, Spec: r.op.Spec})
		if k.stored && r.op.Op.Info().Spec != process.SpecSent {
			r.list[i].Spec, r.list[i].ReportedSpec = nil, r.op.Spec
		}
	}
	return &r.list[i]
}

// boundBy returns the hosts on which the caller has no right to decide what runs, and so may not use its own spec. The
// value of a host is true if the given spec equals the stored spec there: then the caller may use it.
func (h *Handler) boundBy(ctx context.Context, who *access.Principal, req *Request, id process.ID,
	agents []store.Agent,
) (map[string]bool, error) {
	bound, set := map[string]bool{}, who.Sets(id.Namespace)
	if req.Spec == nil || set.Everywhere() {
		return bound, nil
	}
	var keys []string
	for _, a := range agents {
		if !set.Covers(gate.Host(a)) {
			bound[a.Key] = false
			keys = append(keys, a.Key)
		}
	}
	if len(keys) == 0 {
		return bound, nil
	}
	err := h.processes.EachObserved(ctx, store.ObservedFilter{Process: id, Agents: keys, Spec: true},
		func(o *store.Observed) {
			bound[o.Agent] = o.Spec.Same(req.Spec)
		})
	return bound, err
}

// coversAll reports whether all of the hosts are within reach.
func coversAll(reach access.Reach, agents []store.Agent) bool {
	return !slices.ContainsFunc(agents, func(a store.Agent) bool { return !reach.Covers(gate.Host(a)) })
}

// agentsOf returns the hosts of a target that match the selector of the request: of the named hosts, or of the hosts
// that know the process. It keeps a named host outside the caller's reach, whose labels the caller must not learn. A
// register with a selector and without names is for every host that matches. stranger is the index of the first name
// that no host has; -1 if there is none.
func (h *Handler) agentsOf(ctx context.Context, req *Request, t *processes.TargetRequest, reach access.Reach,
) (agents []store.Agent, stranger int, err error) {
	add := func(a store.Agent, known bool) {
		if known && req.choice.Selects(&a) {
			agents = append(agents, a)
		}
	}
	for n, name := range t.Hosts {
		a, found := h.Directory.LookupID(name)
		if !found {
			return nil, n, nil
		}
		if req.choice.Selects(&a) || !reach.Covers(gate.Host(a)) {
			agents = append(agents, a)
		}
	}
	switch {
	case len(t.Hosts) > 0:
	case req.Op == process.Register && req.Select != nil:
		for a := range h.Directory.After(fleet.Place{}) {
			add(a, true)
		}
	default:
		err = h.processes.EachObserved(ctx, store.ObservedFilter{Process: t.ID()}, func(o *store.Observed) {
			add(h.Directory.ByKey(o.Agent))
		})
	}
	return agents, -1, err
}
