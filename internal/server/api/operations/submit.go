package operations

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/processes"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
)

// RequestsFor groups steps into requests, and counts the steps by operation.
func RequestsFor(steps []plan.Step) (list []store.Request, ops map[process.Op]int) {
	type kind struct {
		op      process.Op
		id      process.ID
		spec    *process.Spec
		removes bool
	}
	place := map[kind]int{}
	ops = map[process.Op]int{}
	for _, s := range steps {
		k := kind{s.Op, s.Process, s.Spec, s.Removes}
		i, ok := place[k]
		if !ok {
			i = len(list)
			place[k] = i
			list = append(list, store.Request{Op: s.Op, Process: s.Process, Spec: s.Spec, Removes: s.Removes})
		}
		list[i].Targets = append(list[i].Targets, store.Target{
			ItemKey: store.ItemKey(s.Process, s.Host), Spelling: s.Host, Agent: s.Agent,
		})
		ops[s.Op]++
	}
	return list, ops
}

// NewTaskID returns an id that is short enough to type. Its 60 random bits only make it unique: the caller's identity
// decides what it may see.
func NewTaskID() string { return "op-" + strings.ToLower(rand.Text()[:12]) }

// planOperation returns the reply to a dry run of an operation.
func (h *Handler) planOperation(ctx context.Context, c *call.Call, req *Request, requests []store.Request) (
	call.Reply, error,
) {
	var p v1.OperationPlan
	var agents []string
	for i := range requests {
		r := &requests[i]
		t := v1.Target{Namespace: r.Process.Namespace, Name: r.Process.Name}
		for _, host := range r.Targets {
			t.Hosts, agents = append(t.Hosts, host.Spelling), append(agents, host.Agent)
		}
		p.Targets = append(p.Targets, t)
		c.Audit.Targets += len(t.Hosts)
	}
	p.Away = h.hosts.Away(agents)
	if req.Rollout == nil && !req.OneOf {
		if err := h.CheckBreadth(HostsIn(requests), req.Op); err != nil {
			p.Reason, p.Refused = err.Error(), http.StatusForbidden
		}
		return call.OK(p)
	}
	r, err := h.rolloutOf(c, req, requests)
	if err != nil {
		return call.Reply{}, err
	}
	return h.PlanRollout(ctx, p, r)
}

// Create stores an operation and returns it; the engine executes it.
func (h *Handler) Create(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req Request
	dry := c.Params.Flag("dry_run")
	check := func() error { return req.validate(h.Now()) }
	if err := c.Decode(ctx, &req, check); err != nil {
		return call.Reply{}, err
	}
	req.dry = dry != nil && *dry
	if err := check(); err != nil {
		return call.Reply{}, err
	}
	if req.Selection == "" {
		return h.operate(ctx, c, &req, nil)
	}
	s, err := h.takeSelection(ctx, c, &req)
	if err != nil {
		return call.Reply{}, err
	}
	answer, err := h.operate(ctx, c, &req, nil)
	if err != nil {
		return answer, err
	}
	n, err := h.came(ctx, &c.Principal, s)
	if err != nil { // the number only informs
		h.Log.InfoContext(ctx, "cannot count what a selection leaves out", "selection", s.ID, "error", err)
	}
	answer.Body = leavingOut(answer.Body, n)
	return answer, nil
}

// operate stores an operation or its rollout. run is the run of a schedule that it carries out; nil if there is none.
func (h *Handler) operate(ctx context.Context, c *call.Call, req *Request, run *store.ScheduleRun) (call.Reply, error) {
	if err := h.expand(ctx, &c.Principal, req); err != nil {
		return call.Reply{}, err
	}
	if err := req.oneProcess(); err != nil {
		return call.Reply{}, err
	}
	subject := edge.Clip(req.Targets[0].ID().String())
	c.Audit.Target = subject
	requests, items, err := h.resolve(ctx, &c.Principal, req)
	if err != nil {
		return call.Reply{}, err
	}
	if err := req.checkHidden(); err != nil {
		return call.Reply{}, err
	}
	if req.dry {
		return h.planOperation(ctx, c, req, requests)
	}
	if req.Rollout != nil || req.OneOf {
		return h.createRollout(ctx, c, req, requests, run)
	}
	if err := h.CheckBreadth(HostsIn(requests), req.Op); err != nil {
		return call.Reply{}, err
	}
	t := h.NewTask(c.Call)
	t.ID, t.Requests, t.HostTimeout, t.Ordered = NewTaskID(), requests, req.hostTimeout(), true
	t.Through, t.Selector = v1.ThroughOperation, req.choice.Selector.String()
	if run != nil {
		run.Task = t.ID
		t.Run, t.Reason = run, "schedule "+run.Schedule
	}
	c.Operates(subject, items, t.ID, map[process.Op]int{req.Op: items})
	if err := h.Submit(ctx, c.Call, t); err != nil {
		return call.Reply{}, Accepting(err)
	}
	stored := store.TaskSummary{
		ID: t.ID, App: t.App, User: t.User, RequestID: t.RequestID, Created: t.Created, Op: req.Op,
		Process:  requests[0].Process,
		Requests: len(requests), Keys: items, Open: items, Selector: t.Selector, Reason: t.Reason,
	}
	return call.Reply{Status: http.StatusAccepted, Body: ViewTask(stored), Location: "/tasks/" +
		url.PathEscape(t.ID)}, nil
}

// expand replaces the patterns of a request by the processes that the caller may query and that match: one target for
// each process, with its hosts.
func (h *Handler) expand(ctx context.Context, who *access.Principal, req *Request) error {
	if len(req.Processes) == 0 {
		return nil
	}
	which := processes.Choice{Labels: req.labels}
	choice := hosts.Choice{Names: req.Hosts, Selector: req.choice.Selector}
	r := h.events.Reader(who)
	place, seen, items := map[process.ID]int{}, map[store.ObservedKey]bool{}, 0
	for _, pattern := range req.Processes {
		f := store.ObservedFilter{Copies: true, Agents: h.hosts.KeysOf(choice), Spec: !which.Labels.IsZero()}
		f.Namespace, f.Name, _ = strings.Cut(pattern, "/")
		f.Within = r.Within(f.Namespace)
		err := h.processes.EachObserved(ctx, f, func(o *store.Observed) {
			a, known := h.Directory.ByKey(o.Agent)
			key := store.ObservedKey{Agent: o.Agent, Process: o.Process}
			if !known || seen[key] || items > call.MaxItems || !r.At(o.Process).Covers(gate.Host(a)) ||
				!which.Matches(o) {
				return
			}
			seen[key] = true
			items++
			at, met := place[o.Process]
			if !met {
				at = len(req.Targets)
				place[o.Process] = at
				req.Targets = append(req.Targets, processes.TargetRequest{
					Namespace: o.Process.Namespace, Name: o.Process.Name,
				})
			}
			req.Targets[at].Hosts = append(req.Targets[at].Hosts, hosts.NameOf(a))
		})
		if err != nil {
			return err
		}
	}
	if len(req.Targets) == 0 {
		p := call.Invalid("processes", "no process matches")
		p.Nothing = true
		return p
	}
	if n := len(req.Targets); n > processes.MaxTargets {
		return call.Invalid("processes", "match %d processes: expected at most %d", n, processes.MaxTargets)
	}
	return nil
}

// HostsIn counts the hosts of requests, each host once.
func HostsIn(requests []store.Request) int {
	agents := map[string]bool{}
	for i := range requests {
		for _, t := range requests[i].Targets {
			agents[t.Agent] = true
		}
	}
	return len(agents)
}
