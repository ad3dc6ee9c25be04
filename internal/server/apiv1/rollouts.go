package apiv1

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/plan"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
)

// readPlan checks the plan of a rollout of an operation, and reports all of its faults.
func (r *operationRequest) readPlan(now time.Time) error {
	_, err := beginning(r.At, now)
	faults := []error{r.readOneOf(), err}
	switch {
	case r.Rollout == nil && r.At != "":
		faults = append(faults, invalid("at", "is for a rollout: expected rollout beside it"))
	case r.Rollout == nil:
		return together(faults...)
	case r.known() && !r.Op.Info().RollsOut:
		faults = append(faults, invalid("rollout", "is not for the operation %s: expected start, stop, restart, reload, "+
			"kill, signal, host, unhost, retry or unregister", r.Op))
	case r.Given != nil:
		faults = append(faults, invalid("spec", "is not for a rollout: every host uses its stored spec"))
	}
	if plan := processfile.CheckRolloutOf(r.Op.Info(), r.Rollout); len(plan) > 0 {
		faults = append(faults, invalidFile("rollout", plan))
	}
	return together(faults...)
}

// newRollout returns a rollout of the caller, without its hosts.
func (h *Handler) newRollout(c *call, op process.Op) *store.Rollout {
	t := h.NewTask(c.Call)
	r := &store.Rollout{
		ID: store.RolloutMark + strings.ToLower(rand.Text()[:12]), App: t.App, User: t.User, RequestID: t.RequestID,
		Created: t.Created, Op: op,
	}
	r.Plan.Unproven = !c.Principal.Proven
	return r
}

// createRollout stores the rollout of an operation and returns it; package drive carries it out.
func (h *Handler) createRollout(ctx context.Context, c *call, req *operationRequest,
	requests []store.Request, run *store.ScheduleRun,
) (reply, error) {
	r, err := h.rolloutOf(c, req, requests)
	if err != nil {
		return reply{}, err
	}
	if run != nil {
		run.Rollout = r.ID
		r.Run, r.Schedule = run, run.Schedule
	}
	if err := h.store(ctx, c, []*store.Rollout{r}); err != nil {
		return reply{}, err
	}
	return reply{
		status: http.StatusAccepted, body: viewRollout(r), location: "/rollouts/" + url.PathEscape(r.ID),
	}, nil
}

// store stores the rollouts of a call with its audit row.
func (h *Handler) store(ctx context.Context, c *call, list []*store.Rollout) error {
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
		return refusedRollout(err, "")
	}
	c.Audited = true
	return nil
}

// lay sets the steps and the hosts of a rollout, in the order of its plan.
func (h *Handler) lay(r *store.Rollout, p *v1.RolloutPlan, at time.Time, steps []plan.Step) {
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

// textOf is the same text for specs that say the same.
func textOf(s *process.Spec) string {
	if s == nil {
		return ""
	}
	text, _ := json.Marshal(s.Unnumbered()) // a spec always encodes
	return string(text)
}

// arrange puts hosts in the order of a plan, its canaries first, and returns the number of its canaries.
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

// spread returns hosts such that those with different values of a label or fact take turns, and those with one value
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

// common adds what the hosts of each failure have in common, and no host on which the rollout has succeeded. Without
// such a host, everything that the hosts share would look like a cause.
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

// traitsOf are the labels and facts of a host, each as a selector of it, sorted.
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

// planOptions are what the parameters of an apply say about its rollouts.
type planOptions struct {
	changes []func(*v1.RolloutPlan)
	at      time.Time
}

// planOptions reads the parameters.
func (h *Handler) planOptions(p *params) (o planOptions, err error) {
	read := func(name string, set func(text string) (func(*v1.RolloutPlan), error)) {
		text := p.text(name)
		if text == "" {
			return
		}
		change, err := set(text)
		if err != nil {
			p.fail(invalid(name, "is %v", err))
			return
		}
		o.changes = append(o.changes, change)
	}
	for name, field := range map[string]func(*v1.RolloutPlan) *v1.HostCount{
		"batch":           func(p *v1.RolloutPlan) *v1.HostCount { return &p.Batch },
		"max_failures":    func(p *v1.RolloutPlan) *v1.HostCount { return &p.MaxFailures },
		"max_unavailable": func(p *v1.RolloutPlan) *v1.HostCount { return &p.MaxUnavailable },
	} {
		read(name, func(text string) (func(*v1.RolloutPlan), error) {
			n, err := v1.ParseHostCount(text)
			if err == nil && name == "max_unavailable" && n.IsZero() {
				err = fmt.Errorf("%s: expected 1 or more, because one process at least is down meanwhile", text)
			}
			return func(p *v1.RolloutPlan) { *field(p) = n }, err
		})
	}
	for name, field := range map[string]func(*v1.RolloutPlan) *v1.Duration{
		"bake":  func(p *v1.RolloutPlan) *v1.Duration { return &p.Bake },
		"pause": func(p *v1.RolloutPlan) *v1.Duration { return &p.Pause },
	} {
		read(name, func(text string) (func(*v1.RolloutPlan), error) {
			d, err := v1.ParseDuration(text)
			return func(p *v1.RolloutPlan) { *field(p) = d }, err
		})
	}
	read("canary", func(text string) (func(*v1.RolloutPlan), error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			err = fmt.Errorf("%.40q: expected a number of hosts", text)
		}
		return func(p *v1.RolloutPlan) { p.Canary = n }, err
	})
	for name, field := range map[string]func(*v1.RolloutPlan) *string{
		"canary_select": func(p *v1.RolloutPlan) *string { return &p.CanarySelect },
		"order":         func(p *v1.RolloutPlan) *string { return &p.Order },
		"spread":        func(p *v1.RolloutPlan) *string { return &p.Spread },
	} {
		read(name, func(text string) (func(*v1.RolloutPlan), error) {
			return func(p *v1.RolloutPlan) { *field(p) = text }, nil
		})
	}
	for name, field := range map[string]func(*v1.RolloutPlan) *bool{
		"skip_away":       func(p *v1.RolloutPlan) *bool { return &p.SkipAway },
		"canary_approval": func(p *v1.RolloutPlan) *bool { return &p.CanaryApproval },
		"undo_on_failure": func(p *v1.RolloutPlan) *bool { return &p.UndoOnFailure },
	} {
		if yes := p.flag(name); yes != nil {
			o.changes = append(o.changes, func(p *v1.RolloutPlan) { *field(p) = *yes })
		}
	}
	if p.fault != nil {
		p.checkPlan(&o)
	}
	o.at, err = beginning(p.text("at"), h.Now())
	return o, err
}

// plan returns the plan of a process whose file has a plan or none; nil if it has none after all.
func (o *planOptions) plan(file *v1.RolloutPlan) (*v1.RolloutPlan, error) {
	switch {
	case len(o.changes) == 0 && (file != nil || o.at.IsZero()):
		return file, nil
	case len(o.changes) == 0:
		return nil, invalid("at", "is for a rollout: expected batch beside it, or rollout in the file")
	}
	var p v1.RolloutPlan
	if file != nil {
		p = *file
	}
	for _, change := range o.changes {
		change(&p)
	}
	if faults := processfile.CheckRollout(&p); len(faults) > 0 {
		return nil, invalidFile("", faults)
	}
	return &p, nil
}

// rollouts returns the rollouts that carry out the steps of an apply; none if no process has a rollout.
func (h *Handler) rollouts(c *call, t *store.Task, o *planOptions, steps []plan.Step) ([]*store.Rollout, error) {
	parts, err := plan.Split(steps, o.plan)
	if faults, ok := errors.AsType[processfile.Faults](err); ok {
		return nil, invalidFile("", faults)
	}
	if err != nil {
		return nil, err
	}
	list := make([]*store.Rollout, len(parts))
	for i, part := range parts {
		r := h.newRollout(c, store.OpApply)
		r.Through, r.Message, r.Known = t.Through, t.Message, t.Known
		h.lay(r, part.Plan, o.at, part.Steps)
		list[i] = r
	}
	h.share(list)
	return list, nil
}

// share limits the rollouts of one call together: without an approval, all of them reach no more hosts than one rollout
// may.
func (h *Handler) share(list []*store.Rollout) {
	hosts := map[string]bool{}
	for _, r := range list {
		for i := range r.Hosts {
			hosts[r.Hosts[i].Agent] = true
		}
	}
	if h.Breadth == 0 || len(list) < 2 || len(hosts) <= h.Breadth {
		return
	}
	left := h.Breadth
	for _, r := range list {
		r.Plan.Breadth, r.Plan.Shared = 0, h.Breadth
		if r.Total > left {
			r.Plan.Breadth = cmp.Or(left, rollout.NoHost)
		}
		left -= min(left, r.Total)
	}
}

// viewPlanned returns rollouts that are only planned.
func viewPlanned(list []*store.Rollout) (views []v1.Rollout) {
	for _, r := range list {
		v := viewRollout(r)
		v.ID = ""
		views = append(views, v)
	}
	return views
}

// hindrance says why the server would refuse a plan without its dry run, with the status of that answer, or hold its
// rollouts, with the status 0. The reason is empty if it would do neither.
func (h *Handler) hindrance(ctx context.Context, steps []plan.Step, rollouts []*store.Rollout) (
	reason string, status int, err error,
) {
	rolling, err := store.Rolling(ctx, h.Rollouts)
	if err != nil {
		return "", 0, failure("list the rollouts", err)
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
		return "", 0, failure("list the rollouts", err)
	} else if busy != nil {
		return busy.Error(), http.StatusConflict, nil
	}
	requests, _ := requestsFor(steps)
	switch err := h.narrow(hostsIn(requests), store.OpApply); {
	case len(rollouts) == 0 && err != nil:
		return err.Error(), http.StatusForbidden, nil
	case !slices.ContainsFunc(rollouts, func(r *store.Rollout) bool { return r.Plan.Breadth != 0 }):
		return "", 0, nil
	}
	return fmt.Sprintf("a rollout of more than %d hosts waits for the approval of a second person", h.Breadth), 0, nil
}

// upgrading returns the refusal of planned upgrades beside an active one of the same hosts; nil if there is none.
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

// rollOut stores the rollouts that carry out an apply.
func (h *Handler) rollOut(ctx context.Context, c *call, answer v1.Plan, list []*store.Rollout) (reply, error) {
	switch err := h.store(ctx, c, list); {
	case errors.Is(err, store.ErrRevised):
		return reply{}, changedMeanwhile(answer.Namespace)
	case err != nil:
		return reply{}, err
	}
	for _, r := range list {
		answer.Rollouts = append(answer.Rollouts, viewRollout(r))
	}
	return reply{
		status: http.StatusAccepted, body: answer, location: "/rollouts/" + url.PathEscape(list[0].ID),
	}, nil
}

// refusedRollout turns an error about a rollout into a problem.
func refusedRollout(err error, id string) error {
	if busy, ok := errors.AsType[*store.RolloutBusyError](err); ok {
		return problemf(http.StatusConflict, "%v", busy)
	}
	if state, ok := errors.AsType[*rollout.StateError](err); ok {
		return problemf(http.StatusConflict, "%v", state)
	}
	if _, known := errors.AsType[*problem](err); known || errors.Is(err, store.ErrRevised) {
		return err
	}
	return stored(err, "rollout", id)
}

func viewRollout(r *store.Rollout) v1.Rollout {
	states := r.States
	if states == nil {
		states = r.Counts()
	}
	v := v1.Rollout{
		ID: r.ID, Op: string(r.Op), Selector: r.Selector, App: r.App, User: r.User, RequestID: r.RequestID,
		CreatedAt: r.Created, State: string(r.State), Reason: r.Reason, Batch: r.Batch, Plan: r.Plan.RolloutPlan,
		Undoing: r.Undoing(), Undoes: r.Undoes, ApprovedBy: r.Approvals.By, Schedule: r.Schedule, OneOf: r.Plan.OneOf,
		AgainWhenLost: r.Plan.AgainWhenLost,
		Counts: v1.RolloutCounts{
			Hosts: r.Total, Waiting: states[rollout.Waiting], Begun: states[rollout.Begun],
			Baking: states[rollout.Baking], OK: states[rollout.Succeeded], Failed: states[rollout.Failed],
			Skipped: states[rollout.Skipped],
		},
	}
	if !r.At.IsZero() {
		v.At = &r.At
	}
	for _, id := range r.Processes() {
		v.Processes = append(v.Processes, id.String())
	}
	place := map[string]int{}
	for i := range r.Hosts {
		x := &r.Hosts[i]
		host := v1.RolloutHost{Host: x.Name, Batch: x.Batch, State: string(x.State), Cause: x.Cause, Message: x.Text}
		if x.State != rollout.Waiting {
			host.Operation = r.BatchTask(x.Batch)
		}
		v.Hosts = append(v.Hosts, host)
		if x.State != rollout.Failed {
			continue
		}
		at, known := place[x.Cause]
		if !known {
			at = len(v.Failures)
			place[x.Cause] = at
			v.Failures = append(v.Failures, v1.RolloutFailure{Cause: x.Cause, Message: x.Text})
		}
		v.Failures[at].Hosts = append(v.Failures[at].Hosts, x.Name)
	}
	slices.SortStableFunc(v.Failures, func(a, b v1.RolloutFailure) int {
		return cmp.Compare(len(b.Hosts), len(a.Hosts))
	})
	return v
}

// listRollouts lists the rollouts that the caller may see, newest first.
func (h *Handler) listRollouts(ctx context.Context, c *call) (reply, error) {
	f := store.RolloutFilter{Sight: c.sight(), Namespace: c.params.text("namespace")}
	state := c.params.choice("state", v1.RolloutActive, v1.RolloutScheduled, v1.RolloutRunning, v1.RolloutHeld,
		v1.RolloutPaused, v1.RolloutDone, v1.RolloutAborted)
	if f.Active = state == v1.RolloutActive; !f.Active {
		f.State = rollout.State(state)
	}
	hosts := c.params.hosts()
	var after int64
	limit, err := c.params.page(&after)
	if err != nil {
		return reply{}, err
	}
	f.Agents = h.chosen(hosts)
	s := h.newSeer(c)
	list, next, err := seen(s, after, limit, func(after int64) ([]store.Rollout, error) {
		return h.Rollouts.ListRollouts(ctx, f, after, limit)
	}, func(r *store.Rollout) int64 { return r.Number }, func(r *store.Rollout) (bool, error) {
		return s.rollout(ctx, r)
	})
	if err != nil {
		return reply{}, failure("list the rollouts", err)
	}
	return seenPage(c, list, next, func(r store.Rollout) v1.Rollout { return viewRollout(&r) })
}

// getRollout returns a rollout with its hosts.
func (h *Handler) getRollout(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	r, err := h.seenRollout(ctx, c, id)
	if err != nil {
		return reply{}, stored(err, "rollout", id)
	}
	v := viewRollout(r)
	h.common(&v, r)
	if v.Others, err = h.besides(ctx, c, r); err != nil {
		return reply{}, failure("list the operations beside a rollout", err)
	}
	return ok(v)
}

// mostOthers is how many operations beside a rollout its page names.
const mostOthers = 20

// besides returns the operations that somebody has begun on the processes and hosts of a rollout while it went on, as
// far as the caller may see them.
func (h *Handler) besides(ctx context.Context, c *call, r *store.Rollout) ([]v1.Operation, error) {
	f := store.TaskFilter{
		Sight: c.sight(), Since: r.Created, Beside: &store.Beside{Rollout: r.ID, Processes: r.Processes()},
	}
	if !r.At.IsZero() {
		f.Since = r.At
	}
	if !r.State.Active() { // its last batch has ended
		f.Until = cmp.Or(r.Settled, r.Created)
	}
	for i := range r.Hosts {
		f.Beside.Agents = append(f.Beside.Agents, r.Hosts[i].Agent)
	}
	s := h.newSeer(c)
	list, _, err := seen(s, 0, mostOthers, func(after int64) ([]store.TaskSummary, error) {
		return h.Listing.ListTasks(ctx, f, after, mostOthers)
	}, func(t *store.TaskSummary) int64 { return t.Number }, func(t *store.TaskSummary) (bool, error) {
		return s.task(ctx, t)
	})
	return viewed(list, viewOperation), err
}

// seenRollout returns a rollout of the caller's app, or one that a person may read on all of its hosts. It returns
// store.ErrNotFound for any other.
func (h *Handler) seenRollout(ctx context.Context, c *call, id string) (*store.Rollout, error) {
	r, err := h.Rollouts.GetRollout(ctx, id, c.app())
	if !c.Principal.Proven || !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	other, failed := h.Rollouts.GetRollout(ctx, id, "")
	if failed != nil {
		return nil, failed
	}
	s := h.newSeer(c)
	everywhere := !slices.ContainsFunc(other.Processes(), func(id process.ID) bool {
		return !s.reaches.On(access.OperationOf(process.Query), id.Namespace).Everywhere()
	})
	if !everywhere && !h.onAll(other, s.reads) {
		return nil, err
	}
	return other, nil
}

// changeRollout changes a rollout as its app or an administrator asks.
func (h *Handler) changeRollout(ctx context.Context, c *call, change func(*rollout.Rollout) error) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	answer, err := h.change(ctx, c, id, c.app(), change)
	return answer, h.onlyOwn(ctx, c, id, err)
}

// onlyOwn words the error of a change of a rollout that the caller sees, but that another app began.
func (h *Handler) onlyOwn(ctx context.Context, c *call, id string, err error) error {
	if p, known := errors.AsType[*problem](err); !known || p.Status != http.StatusNotFound {
		return err
	}
	if r, failed := h.seenRollout(ctx, c, id); failed == nil {
		by := beganBy(r.App, r.User)
		return problemf(http.StatusForbidden, "%s began rollout %s: only %s or an administrator may change it", by, id, by)
	}
	return err
}

// change changes a rollout of an app; an empty app is any.
func (h *Handler) change(ctx context.Context, c *call, id, app string, do func(*rollout.Rollout) error) (reply, error) {
	r, err := h.Rollouts.ChangeRollout(ctx, id, app, h.changeBy(c), do)
	if err != nil {
		return reply{}, refusedRollout(err, id)
	}
	return ok(viewRollout(r))
}

// changeBy says that the caller changes a rollout now.
func (h *Handler) changeBy(c *call) store.RolloutChange {
	by := process.Actor{Kind: process.ActorCaller, App: c.Principal.App, User: c.Principal.User}
	return store.RolloutChange{At: h.Now(), By: by}
}

func (h *Handler) pauseRollout(ctx context.Context, c *call) (reply, error) {
	return h.changeRollout(ctx, c, func(r *rollout.Rollout) error {
		return r.Pause("paused by " + c.Principal.Name())
	})
}

func (h *Handler) resumeRollout(ctx context.Context, c *call) (reply, error) {
	return h.changeRollout(ctx, c, (*rollout.Rollout).Resume)
}

func (h *Handler) abortRollout(ctx context.Context, c *call) (reply, error) {
	return h.changeRollout(ctx, c, aborted("aborted by "+c.Principal.Name()))
}

func (h *Handler) retryRollout(ctx context.Context, c *call) (reply, error) {
	var req v1.RolloutRetry
	if err := c.decode(ctx, &req); err != nil {
		return reply{}, err
	}
	return h.changeRollout(ctx, c, func(r *rollout.Rollout) error {
		n, err := r.Retry(req.Away)
		c.Audit.Targets = n
		return err
	})
}

// paceRollout has a rollout go through the hosts that wait with other batches and times.
func (h *Handler) paceRollout(ctx context.Context, c *call) (reply, error) {
	for _, name := range []string{"canary", "canary_select", "canary_approval", "order", "spread", "skip_away", "at"} {
		if c.params.values.Has(name) {
			return reply{}, invalid(name, "is settled when a rollout is created: expected batch, bake, pause, max_failures or "+
				"max_unavailable")
		}
	}
	o, wrong := h.planOptions(&c.params)
	if err := together(c.params.done(), wrong); err != nil {
		return reply{}, err
	}
	if len(o.changes) == 0 {
		return reply{}, invalid("", "nothing is to change: expected batch, bake, pause, max_failures or max_unavailable")
	}
	id := c.subject("id")
	op, err := h.opOfRollout(ctx, c, id)
	if err != nil {
		return reply{}, err
	}
	answer, err := h.change(ctx, c, id, c.app(), func(r *rollout.Rollout) error {
		if r.Plan.OneOf {
			return problemf(http.StatusUnprocessableEntity, "rollout %s is of one host: it has no batches", id)
		}
		p := r.Plan.RolloutPlan
		for _, change := range o.changes {
			change(&p)
		}
		if faults := processfile.CheckRolloutOf(op.Info(), &p); len(faults) > 0 {
			return invalidFile("", faults)
		}
		return r.Pace(p)
	})
	return answer, h.onlyOwn(ctx, c, id, err)
}

// opOfRollout is the operation of a rollout that the caller may change.
func (h *Handler) opOfRollout(ctx context.Context, c *call, id string) (process.Op, error) {
	r, err := h.Rollouts.GetRollout(ctx, id, c.app())
	if err != nil {
		return "", h.onlyOwn(ctx, c, id, stored(err, "rollout", id))
	}
	return r.Op, nil
}

// approveRollout has a held rollout go on. Only a person who has not begun it may approve it.
func (h *Handler) approveRollout(ctx context.Context, c *call) (reply, error) {
	if !c.Principal.Proven {
		return reply{}, problemf(http.StatusForbidden, "an app that names its user may not approve a rollout: "+
			"expected a user with a token, or an administrator of the server at its socket")
	}
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	r, err := h.seenRollout(ctx, c, id)
	if err != nil {
		return reply{}, stored(err, "rollout", id)
	}
	if r.App != c.Principal.App && !c.Principal.Admin && !h.mayRollOut(&c.Principal, r) {
		return reply{}, problemf(http.StatusForbidden,
			"rollout %s does %s: only a person who may do that on all of its hosts may approve it", r.ID, r.Op)
	}
	if r.State == rollout.Held && r.User == c.Principal.User {
		return reply{}, problemf(http.StatusForbidden, "%s began rollout %s: another person must approve it", r.User, r.ID)
	}
	return h.change(ctx, c, id, r.App, func(r *rollout.Rollout) error { return r.Approve(c.Principal.User, h.Now()) })
}
