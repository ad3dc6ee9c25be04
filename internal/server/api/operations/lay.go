package operations

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/api/call"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/plan"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// PlanRollout returns the reply to a dry run: the plan with its rollout, and the reason for which the server would
// refuse or hold the rollout.
func (h *Handler) PlanRollout(
	ctx context.Context, p v1.OperationPlan, r *store.Rollout,
) (answer call.Reply, err error) {
	planned := []*store.Rollout{r}
	p.Rollout = &ViewPlanned(planned)[0]
	if p.Reason, p.Refused, err = h.Hindrance(ctx, nil, planned); err != nil {
		return call.Reply{}, err
	}
	return call.OK(p)
}

// NewRollout returns a rollout of the caller, without its hosts.
func (h *Handler) NewRollout(c *call.Call, op process.Op) *store.Rollout {
	t := h.NewTask(c.Call)
	r := &store.Rollout{
		ID: store.RolloutMark + strings.ToLower(rand.Text()[:12]), App: t.App, User: t.User, RequestID: t.RequestID,
		Created: t.Created, Op: op,
	}
	r.Plan.Unproven = !c.Principal.Proven
	return r
}

// createRollout stores the rollout of an operation and returns it; package drive carries it out.
func (h *Handler) createRollout(ctx context.Context, c *call.Call, req *Request,
	requests []store.Request, run *store.ScheduleRun,
) (call.Reply, error) {
	r, err := h.rolloutOf(c, req, requests)
	if err != nil {
		return call.Reply{}, err
	}
	if run != nil {
		run.Rollout = r.ID
		r.Run, r.Schedule = run, run.Schedule
	}
	if err := h.StoreRollouts(ctx, c, []*store.Rollout{r}); err != nil {
		return call.Reply{}, err
	}
	return call.Reply{
		Status: http.StatusAccepted, Body: ViewRollout(r), Location: "/rollouts/" + url.PathEscape(r.ID),
	}, nil
}

// StoreRollouts stores the rollouts of a call with its audit row.
func (h *Handler) StoreRollouts(ctx context.Context, c *call.Call, list []*store.Rollout) error {
	ops := map[process.Op]int{}
	items := 0
	for _, r := range list {
		for i := range r.Hosts {
			for _, at := range r.Hosts[i].Steps {
				ops[r.Steps[at].Op]++
				items++
			}
		}
	}
	c.Operates(edge.Clip(list[0].Steps[0].Process.String()), items, list[0].ID, ops)
	row := c.Row()
	row.Message = process.Success
	if err := h.Rollouts.CreateRollouts(ctx, list, row); err != nil {
		return RefusedRollout(err, "")
	}
	h.Bus.Changed(bus.Events, bus.Work) // an undo has ended another rollout
	c.Audited = true
	return nil
}

// LayRollout sets the steps and the hosts of a rollout, in the order of its plan.
func (h *Handler) LayRollout(r *store.Rollout, p *v1.RolloutPlan, at time.Time, steps []plan.Step) {
	type kind struct {
		op      process.Op
		id      process.ID
		spec    *process.Spec
		removes bool
		former  string
	}
	steppedAt, hostAt := map[kind]int{}, map[string]int{}
	var hosts []rollout.Host
	judged := false
	for _, s := range steps {
		k := kind{s.Op, s.Process, s.Spec, s.Removes, textOf(s.Former)}
		n, known := steppedAt[k]
		if !known {
			n = len(r.Steps)
			steppedAt[k] = n
			r.Steps = append(r.Steps, store.RolloutStep{
				Op: s.Op, Process: s.Process, Spec: s.Spec, Removes: s.Removes, Former: s.Former,
			})
		}
		info := s.Op.Info()
		judged = judged || !s.Removes && info.LeavesRunning()
		i, known := hostAt[s.Agent]
		if !known {
			i = len(hosts)
			hostAt[s.Agent] = i
			hosts = append(hosts, rollout.Host{Agent: s.Agent, Name: s.Host})
		}
		hosts[i].Steps = append(hosts[i].Steps, n)
	}
	for i := range hosts { // in the order of the plan, also if its steps were grouped
		slices.Sort(hosts[i].Steps)
	}
	made := rollout.Plan{RolloutPlan: *p, Judged: judged, Unproven: r.Plan.Unproven}
	made.Canary = h.arrange(hosts, p)
	if h.Breadth > 0 && len(hosts) > h.Breadth && r.Undoes == "" { // what ran before needs no second person
		made.Breadth = h.Breadth
	}
	r.Rollout, r.Total = rollout.New(made, at, hosts), len(hosts)
}

// textOf returns a text that is equal for equal specs, for comparisons.
func textOf(s *process.Spec) string {
	if s == nil {
		return ""
	}
	text, _ := json.Marshal(s.Unnumbered()) // a spec always encodes
	return string(text)
}

// arrange sorts hosts in place as a plan says, canaries first, and returns the number of canaries.
func (h *Handler) arrange(hosts []rollout.Host, p *v1.RolloutPlan) (canaries int) {
	h.sortHosts(hosts, p.Order)
	matching, _ := selector.Parse(p.CanarySelect) // the plan is checked; without a selector all match
	var first, rest []rollout.Host
	for _, x := range hosts {
		if a, known := h.Directory.ByKey(x.Agent); matching.IsZero() || known && matching.Matches(a.Select) {
			first = append(first, x)
		} else {
			rest = append(rest, x)
		}
	}
	if len(first) == 0 { // an apply may have reached them before
		first, rest = rest, nil
	}
	first = h.spread(first, p.Spread)
	canaries = min(p.Canary, len(first))
	rest = append(rest, first[canaries:]...)
	h.sortHosts(rest, p.Order)
	copy(hosts, slices.Concat(first[:canaries], h.spread(rest, p.Spread)))
	return canaries
}

// spread returns the hosts in an order in which the values of a label or fact take turns. Hosts with the same value
// keep their order.
func (h *Handler) spread(hosts []rollout.Host, over string) []rollout.Host {
	if over == "" {
		return hosts
	}
	turn, turns := map[string]int{}, make(map[string]int, len(hosts))
	for i := range hosts {
		value := ""
		if a, known := h.Directory.ByKey(hosts[i].Agent); known {
			value, _ = a.Select(over)
		}
		turns[hosts[i].Agent] = turn[value]
		turn[value]++
	}
	spread := slices.Clone(hosts)
	slices.SortStableFunc(spread, func(x, y rollout.Host) int { return turns[x.Agent] - turns[y.Agent] })
	return spread
}

// common adds to each failure the labels and facts that all of its hosts have and no host has on which the rollout has
// succeeded. Without such a host, everything that the hosts share would look like a cause.
func (h *Handler) common(v *v1.Rollout, r *store.Rollout) {
	traits := map[string][]string{}
	good, some := map[string]bool{}, false
	for i := range r.Hosts {
		x := &r.Hosts[i]
		a, known := h.Directory.ByKey(x.Agent)
		if !known {
			continue
		}
		switch x.State {
		case rollout.Failed:
			traits[x.Name] = traitsOf(&a)
		case rollout.Succeeded:
			some = true
			for _, trait := range traitsOf(&a) {
				good[trait] = true
			}
		default:
		}
	}
	for i := range v.Failures {
		f := &v.Failures[i]
		if len(f.Hosts) < 2 || !some {
			continue
		}
		for _, trait := range traits[f.Hosts[0]] {
			without := func(host string) bool { return !slices.Contains(traits[host], trait) }
			if !good[trait] && !slices.ContainsFunc(f.Hosts, without) {
				f.Common = append(f.Common, trait)
			}
		}
	}
}

// traitsOf returns the labels and facts of a host, each as a selector that matches the host, sorted.
func traitsOf(a *store.Agent) (traits []string) {
	keys := []string{selector.OSVersion, selector.Kernel, selector.Arch, selector.AgentVersion}
	for name := range a.Host.Facts {
		keys = append(keys, selector.FactPrefix+name)
	}
	keys = slices.AppendSeq(keys, maps.Keys(a.AllLabels()))
	slices.Sort(keys)
	for _, key := range keys {
		if value, has := a.Select(key); has {
			traits = append(traits, key+"="+value)
		}
	}
	return traits
}

// sortHosts sorts hosts by a label or fact, and by their names.
func (h *Handler) sortHosts(hosts []rollout.Host, by string) {
	value := func(x *rollout.Host) (text string, has bool) {
		if a, known := h.Directory.ByKey(x.Agent); known && by != "" {
			return a.Select(by)
		}
		return "", false
	}
	slices.SortFunc(hosts, func(x, y rollout.Host) int {
		xs, xHas := value(&x)
		ys, yHas := value(&y)
		if xHas != yHas {
			if xHas {
				return -1
			}
			return 1
		}
		return cmp.Or(strings.Compare(xs, ys), strings.Compare(x.Name, y.Name))
	})
}

// ViewPlanned shows rollouts that are planned and not stored: without an id.
func ViewPlanned(list []*store.Rollout) (views []v1.Rollout) {
	for _, r := range list {
		v := ViewRollout(r)
		v.ID = ""
		views = append(views, v)
	}
	return views
}

// Hindrance says why the server would refuse a plan without its dry run, with the status of that answer, or hold its
// rollouts, with the status 0. The reason is empty if the server would do neither.
func (h *Handler) Hindrance(ctx context.Context, steps []plan.Step, rollouts []*store.Rollout) (
	reason string, status int, err error,
) {
	rolling, err := store.Rolling(ctx, h.Rollouts)
	if err != nil {
		return "", 0, call.Failure("list the rollouts", err)
	}
	var processes []process.ID
	for i := range steps {
		processes = append(processes, steps[i].Process)
	}
	for _, r := range rollouts {
		processes = append(processes, r.Processes()...)
	}
	for _, id := range processes {
		if busy := rolling[id]; busy != nil {
			return busy.Error(), http.StatusConflict, nil
		}
	}
	if busy, err := h.upgrading(ctx, rollouts); err != nil {
		return "", 0, call.Failure("list the rollouts", err)
	} else if busy != nil {
		return busy.Error(), http.StatusConflict, nil
	}
	requests, _ := RequestsFor(steps)
	switch err := h.CheckBreadth(HostsIn(requests), store.OpApply); {
	case len(rollouts) == 0 && err != nil:
		return err.Error(), http.StatusForbidden, nil
	case !slices.ContainsFunc(rollouts, func(r *store.Rollout) bool { return r.Plan.Breadth != 0 }):
		return "", 0, nil
	}
	return fmt.Sprintf("a rollout of more than %d hosts waits for the approval of a second person", h.Breadth), 0, nil
}

// upgrading returns the refusal of an upgrade if an active rollout upgrades one of the same hosts; nil if there is no
// such rollout.
func (h *Handler) upgrading(ctx context.Context, planned []*store.Rollout) (*store.RolloutBusyError, error) {
	for _, r := range planned {
		if !slices.Contains(r.Processes(), process.AgentID()) {
			continue
		}
		agents := r.Agents()
		list, err := store.Upgrading(ctx, h.Rollouts, agents)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		other, err := h.Rollouts.GetRollout(ctx, list[0].ID, "")
		if err != nil {
			return nil, err
		}
		busy := &store.RolloutBusyError{ID: other.ID, Process: process.AgentID(), State: other.State}
		for i := range other.Hosts {
			if slices.Contains(agents, other.Hosts[i].Agent) {
				busy.Host = other.Hosts[i].Name
				break
			}
		}
		return busy, nil
	}
	return nil, nil //nolint:nilnil // no refusal, no error
}

// furthest is how far ahead a rollout may begin.
const furthest = 366 * 24 * time.Hour

// rolloutOf returns the rollout of an operation, which is not stored yet.
func (h *Handler) rolloutOf(c *call.Call, req *Request, requests []store.Request) (*store.Rollout, error) {
	r := h.NewRollout(c, req.Op)
	at, err := Beginning(req.At, h.Now())
	if err != nil {
		return nil, err
	}
	r.HostTimeout, r.Selector, r.Through = req.hostTimeout(), req.choice.Selector.String(), v1.ThroughOperation
	var steps []plan.Step
	for i := range requests {
		for _, t := range requests[i].Targets {
			steps = append(steps, plan.Step{Op: req.Op, Process: requests[i].Process, Agent: t.Agent, Host: t.Spelling})
		}
	}
	if req.OneOf {
		h.layOne(r, req, steps)
	} else {
		h.LayRollout(r, req.Rollout, at, steps)
	}
	return r, nil
}

// layOne sets the steps and the hosts of a rollout that carries out an operation on one host. Connected hosts come
// first; within each group the names decide. layOne uses only the first mostCandidates hosts, because each run stores
// its hosts.
func (h *Handler) layOne(r *store.Rollout, req *Request, steps []plan.Step) {
	h.LayRollout(r, &v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, SkipAway: true}, time.Time{}, steps)
	away := func(x *rollout.Host) int {
		if h.Directory.Presence(x.Agent, h.Now()).Away {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(r.Hosts, func(x, y rollout.Host) int { return away(&x) - away(&y) })
	r.Hosts = r.Hosts[:min(len(r.Hosts), mostCandidates)]
	r.Total = len(r.Hosts)
	p := r.Plan
	p.OneOf, p.AgainWhenLost, p.Breadth = true, req.AgainWhenLost, 0
	r.Rollout = rollout.New(p, time.Time{}, r.Hosts)
}
