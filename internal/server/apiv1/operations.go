package apiv1

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

func viewOperation(t store.TaskSummary) v1.Operation {
	v := v1.Operation{
		ID: t.ID, Op: string(t.Op), Subject: t.Process.String(), Requests: t.Requests, App: t.App, User: t.User,
		RequestID: t.RequestID, Selector: t.Selector, Reason: t.Reason,
		CreatedAt: t.Created, State: v1.OperationDone,
		Counts: v1.Counts{Targets: t.Keys, OK: t.Keys - t.Open - t.Failed, Failed: t.Failed, Pending: t.Open},
	}
	if t.Open > 0 {
		v.State = v1.OperationRunning
	}
	return v
}

// Limits of held selections.
const (
	// heldTime is how long a selection is held, and mostHeld how many of one caller. An app has mostOfApp for all users
	// that it names, because it may invent them.
	heldTime  = 15 * time.Minute
	mostHeld  = 20
	mostOfApp = 100
	// sampled is how many processes an answer names.
	sampled = 20
)

// selectionRequest is v1.SelectionRequest with lists that stop decoding at their limits.
type selectionRequest struct {
	Op      process.Op          `json:"op"`
	Targets list[targetRequest] `json:"targets"`
	Except  list[targetRequest] `json:"except"`
	Hosts   list[string]        `json:"hosts"`
}

// heldFilter is what the store keeps of a selection beside its processes: what selected them, and the answer.
type heldFilter struct {
	// Named tells that the request named the processes, so that there is no filter.
	Named  bool                `json:"named,omitempty"`
	Query  string              `json:"query"`
	Agents []string            `json:"agents,omitempty"`
	Except list[targetRequest] `json:"except,omitempty"`
	Answer v1.Selection        `json:"answer"`
}

// picked tells which processes the entries of a request name. An entry without hosts names all hosts.
func picked(entries []targetRequest) func(f *rollup.Found) bool {
	type key struct {
		process.ID
		host string
	}
	named := map[key]bool{}
	for i := range entries {
		t := &entries[i]
		if len(t.Hosts) == 0 {
			named[key{t.id(), ""}] = true
		}
		for _, host := range t.Hosts {
			named[key{t.id(), host}] = true
		}
	}
	return func(f *rollup.Found) bool {
		return len(named) > 0 && (named[key{f.Process, ""}] || named[key{f.Process, nameOf(*f.Agent)}] ||
			named[key{f.Process, addressOf(*f.Agent)}])
	}
}

// createSelection holds the processes that match a filter now, or that the caller names.
func (h *Handler) createSelection(ctx context.Context, c *call) (reply, error) {
	query, req := c.params.values.Encode(), selectionRequest{}
	f := c.params.fleet()
	if err := c.decode(ctx, &req, req.check); err != nil {
		return reply{}, err
	}
	if err := req.check(); err != nil {
		return reply{}, err
	}
	q, err := h.ready(ctx, &c.Principal, &f, false)
	if err != nil {
		return reply{}, err
	}
	v := v1.Selection{Namespaces: map[string]int{}, Sample: []v1.SelectedProcess{}}
	if len(req.Hosts) > 0 {
		q.Agents, v.UnknownHosts = h.knownHosts(c.Principal.OnHosts(access.ReadAgents), req.Hosts)
		v.KnownHosts = len(q.Agents)
	}
	q.Now = true
	chosen, err := h.selectNow(ctx, c, q, &req, &v)
	if err != nil {
		return reply{}, err
	}
	v.ID, v.ExpiresAt = "sel-"+strings.ToLower(rand.Text()), h.Now().Add(heldTime).UTC()
	filter, _ := json.Marshal(heldFilter{len(req.Targets) > 0, query, q.Agents, req.Except, v}) // texts always encode
	targets, _ := json.Marshal(chosen)
	c.Audit.Target, c.Audit.Targets = v.ID, v.Targets
	most := mostHeld
	if !c.Principal.Proven {
		most = mostOfApp
	}
	err = h.Held.HoldSelection(ctx, store.HeldSelection{
		ID: v.ID, App: c.Principal.App, User: c.Principal.User, Until: v.ExpiresAt, Filter: string(filter),
		Targets: targets,
	}, most, !c.Principal.Proven)
	if err != nil {
		return reply{}, failure("hold the selection", err)
	}
	return reply{status: http.StatusCreated, body: v}, nil
}

// knownHosts returns the keys of hosts by their ids or addresses, and the names of hosts that the caller may not know.
// An address without an area stands for the hosts of every area that have it.
func (h *Handler) knownHosts(reach access.Reach, names []string) (keys, unknown []string) {
	byIP, keys := map[string][]string{}, []string{}
	for a := range h.Directory.After(fleet.Place{}) {
		if reach.Covers(gate.Host(a)) {
			byIP[a.IP] = append(byIP[a.IP], a.Key)
		}
	}
	for _, name := range names {
		if a, found := h.Directory.LookupID(name); found && reach.Covers(gate.Host(a)) {
			keys = append(keys, a.Key)
		} else if with := byIP[name]; len(with) > 0 {
			keys = append(keys, with...)
		} else {
			unknown = append(unknown, edge.Clip(name))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), unknown
}

// getSelection returns a selection as it was made.
func (h *Handler) getSelection(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	s, err := h.held(ctx, &c.Principal, id)
	if err != nil {
		return reply{}, err
	}
	return ok(s.filter.Answer)
}

// selected is a held selection as this server uses it. It never changes.
type selected struct {
	id, app, user string
	until         time.Time
	targets       []targetRequest
	filter        heldFilter
	// has reports whether a process is one of the targets.
	has func(f *rollup.Found) bool
}

// mostRecent is how many processes the recent selections have together; the last one may have more.
const mostRecent = 2 * maxItems

// recentSelections are the selections that calls have used last. A page of a selection asks for it again and again.
type recentSelections struct {
	mu  sync.Mutex
	all []*selected
}

// find returns a selection of a caller; nil if nobody has used it.
func (r *recentSelections) find(id string, who *access.Principal, now time.Time) *selected {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(s *selected) bool { return !now.Before(s.until) })
	i := slices.IndexFunc(r.all, func(s *selected) bool { return s.id == id && s.app == who.App && s.user == who.User })
	if i < 0 {
		return nil
	}
	return r.all[i]
}

// add remembers a selection, and forgets the first ones for it.
func (r *recentSelections) add(s *selected) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
	n := 0
	for _, s := range r.all {
		n += s.filter.Answer.Targets
	}
	for ; n > mostRecent && len(r.all) > 1; r.all = r.all[1:] {
		n -= r.all[0].filter.Answer.Targets
	}
}

// held returns a selection of the caller.
func (h *Handler) held(ctx context.Context, who *access.Principal, id string) (*selected, error) {
	if s := h.recent.find(id, who, h.Now()); s != nil {
		return s, nil
	}
	row, err := h.Held.FindSelection(ctx, id, who.App, who.User, h.Now())
	if err != nil {
		return nil, stored(err, "selection", edge.Clip(id))
	}
	s := &selected{id: row.ID, app: row.App, user: row.User, until: row.Until}
	if err = json.Unmarshal(row.Targets, &s.targets); err == nil {
		err = json.Unmarshal([]byte(row.Filter), &s.filter)
	}
	if err != nil {
		return nil, failure("read the selection", err)
	}
	s.has = picked(s.targets)
	h.recent.add(s)
	return s, nil
}

// selectNow returns the processes of a selection, one target for each process, and describes them in v.
func (h *Handler) selectNow(ctx context.Context, c *call, q *rollup.Query, req *selectionRequest, v *v1.Selection) (
	[]targetRequest, error,
) {
	named, except := picked(req.Targets), picked(req.Except)
	place, hosts := map[process.ID]int{}, map[string]bool{}
	var where []access.Host // of each process in v.Sample
	var chosen []targetRequest
	err := h.Picture.Each(ctx, q, func(f *rollup.Found) {
		if len(req.Targets) > 0 && !named(f) || except(f) {
			return
		}
		if v.Targets++; v.Targets > maxItems {
			return
		}
		at, met := place[f.Process]
		if !met {
			at = len(chosen)
			place[f.Process] = at
			chosen = append(chosen, targetRequest{Namespace: f.Process.Namespace, Name: f.Process.Name})
		}
		one := v1.SelectedProcess{Namespace: f.Process.Namespace, Name: f.Process.Name, Host: nameOf(*f.Agent)}
		chosen[at].Hosts = append(chosen[at].Hosts, one.Host)
		hosts[f.Key] = true
		v.Namespaces[one.Namespace]++
		v.Sample = append(v.Sample, one)
		if f.Stale {
			v.Away++
		}
		where = append(where, gate.Host(*f.Agent))
	})
	if req.Op != "" {
		who, right := c.Principal, access.OperationOf(req.Op)
		who.Targets = len(where)
		reaches := access.NewReaches(who)
		for i, one := range v.Sample {
			if !reaches.On(right, one.Namespace).Covers(where[i]) {
				v.DeniedCount++
				v.Denied = append(v.Denied, one)
			}
		}
	}
	v.Hosts, v.Sample, v.Denied = len(hosts), sample(v.Sample), sample(v.Denied)
	switch {
	case err != nil:
		return nil, failure("select the processes", err)
	case v.Targets > maxItems:
		return nil, invalid("filter", "matches %d processes: expected at most %d", v.Targets, maxItems)
	case len(chosen) > maxTargets:
		return nil, invalid("filter", "matches %d names of processes: expected at most %d", len(chosen), maxTargets)
	}
	return chosen, nil
}

// sample returns the first processes by name.
func sample(all []v1.SelectedProcess) []v1.SelectedProcess {
	slices.SortFunc(all, func(a, b v1.SelectedProcess) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host))
	})
	return slices.Clone(all[:min(len(all), sampled)])
}

// check reports all faults of the request.
func (r *selectionRequest) check() error {
	var faults []error
	if r.Op != "" && !r.Op.Info().OwnAPI {
		faults = append(faults, invalid("op", "is %.40q: expected one of %s", r.Op, strings.Join(supported(), ", ")))
	}
	// To take an empty list as none would select everything for a program that has found nothing.
	if r.Targets != nil && len(r.Targets) == 0 {
		faults = append(faults, invalid("targets", "is empty: expected processes, or no such list"))
	}
	if r.Hosts != nil && len(r.Hosts) == 0 {
		faults = append(faults, invalid("hosts", "is empty: expected hosts, or no such list"))
	}
	return together(faults...)
}

// takeSelection makes the processes of a selection the targets of a request.
func (h *Handler) takeSelection(ctx context.Context, c *call, req *operationRequest) (*selected, error) {
	s, err := h.held(ctx, &c.Principal, req.Selection)
	switch {
	case err != nil:
		return nil, err
	case len(s.targets) == 0:
		return nil, invalid("selection", "has no processes")
	}
	req.Targets = s.targets
	return s, nil
}

// came counts the processes that match the filter of a selection now and did not before.
func (h *Handler) came(ctx context.Context, who *access.Principal, s *selected) (n int, err error) {
	if s.filter.Named {
		return 0, nil
	}
	values, err := url.ParseQuery(s.filter.Query)
	if err != nil {
		return 0, failure("read the selection", err)
	}
	p := params{values: values, read: map[string]bool{}}
	f := p.fleet()
	q, err := h.ready(ctx, who, &f, false)
	if err != nil {
		return 0, err
	}
	if s.filter.Agents != nil {
		q.Agents = s.filter.Agents
	}
	q.Now = true
	except := picked(s.filter.Except)
	err = h.Picture.Each(ctx, q, func(f *rollup.Found) {
		if !s.has(f) && !except(f) {
			n++
		}
	})
	return n, err
}

// listOperations lists the tasks that the caller may see, newest first.
func (h *Handler) listOperations(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.TaskFilter{
		App: p.text("app"), User: p.text("user"), Namespace: p.text("namespace"), Since: p.time("since"),
		Sight: c.sight(), Op: process.Op(p.choice("op", supported()...)),
	}
	if state := p.choice("state", v1.OperationRunning, v1.OperationDone); state != "" {
		over := state == v1.OperationDone
		f.Done = &over
	}
	switch failed := true; p.choice("outcome", v1.OutcomeOK, v1.OutcomeFailed) {
	case v1.OutcomeFailed:
		f.Failed = &failed
	case v1.OutcomeOK:
		over := true
		failed = false
		f.Failed, f.Done = &failed, &over
	}
	hosts := p.hosts()
	var after int64
	limit, err := p.page(&after)
	if err != nil {
		return reply{}, err
	}
	s := h.newSeer(c)
	agents := h.chosen(hosts)
	tasks, next, err := seen(s, after, limit, func(after int64) ([]store.TaskSummary, error) {
		return h.Listing.ListTasks(ctx, f, after, limit)
	}, func(t *store.TaskSummary) int64 { return t.Number }, func(t *store.TaskSummary) (bool, error) {
		if agents != nil {
			s.left -= t.Keys
			if on, err := h.Listing.TaskOn(ctx, t.Number, agents); err != nil || !on {
				return false, err
			}
		}
		return s.task(ctx, t)
	})
	if err != nil {
		return reply{}, failure("list the operations", err)
	}
	return seenPage(c, tasks, next, viewOperation)
}

// taskApp returns the app of the tasks that the caller may see, for a task. A person sees the batches of a rollout that
// the person sees, and tasks of others whose processes the person may query. Empty is any app.
func (h *Handler) taskApp(ctx context.Context, c *call, id string) (string, error) {
	if c.Principal.Admin || !c.Principal.Proven {
		return c.app(), nil
	}
	if _, err := h.Listing.GetTask(ctx, id, c.app()); !errors.Is(err, store.ErrNotFound) {
		return c.app(), err
	}
	if of := store.RolloutOf(id); of != "" {
		if r, err := h.seenRollout(ctx, c, of); err == nil {
			return r.App, nil
		}
	}
	if sees, err := h.newSeer(c).results(ctx, id); err != nil || sees {
		return "", err
	}
	return c.app(), nil
}

// getOperation returns a task. With ?wait= it returns when the task is done or that time has passed.
func (h *Handler) getOperation(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	wait := c.params.wait()
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	app, err := h.taskApp(ctx, c, id)
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	t, err := h.Listing.GetTask(ctx, id, app)
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	// A caller that reads its own task needs no audit row, because the task has one.
	c.Audited = t.App == c.Principal.App && t.User == c.Principal.User
	if wait > 0 && t.Open > 0 {
		if err := h.await(ctx, id, wait); err != nil {
			return reply{}, err
		}
		if t, err = h.Listing.GetTask(ctx, id, app); err != nil {
			return reply{}, stored(err, "operation", id)
		}
	}
	return ok(viewOperation(t))
}

// cancelOperation ends the targets of a task that have not begun.
func (h *Handler) cancelOperation(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	cancelled, err := h.Cancels.Cancel(ctx, id, c.app())
	if err != nil {
		return reply{}, h.onlyOwnTask(ctx, c, id, err)
	}
	c.Audit.Targets = cancelled.Ended + cancelled.Asked
	t, err := h.Listing.GetTask(ctx, id, c.app())
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	return ok(v1.Cancellation{
		Cancelled: cancelled.Ended, Asked: cancelled.Asked, Begun: cancelled.Begun, Operation: viewOperation(t),
	})
}

// beganBy names who began something: the app, or the person who has no app or is one.
func beganBy(app, user string) string {
	if app == "" || app == access.PersonApp(user) {
		return user
	}
	return app
}

// onlyOwnTask words the error of a change of a task that the caller sees, but that another app began.
func (h *Handler) onlyOwnTask(ctx context.Context, c *call, id string, err error) error {
	if errors.Is(err, store.ErrNotFound) && c.Principal.Proven {
		if app, failed := h.taskApp(ctx, c, id); failed == nil {
			if t, failed := h.Listing.GetTask(ctx, id, app); failed == nil {
				return problemf(http.StatusForbidden,
					"%[1]s began operation %[2]s: only %[1]s or an administrator may cancel it", beganBy(t.App, t.User), id)
			}
		}
	}
	return stored(err, "operation", id)
}

// await blocks until the task is done, the time has passed, the caller has hung up or the server stops.
func (h *Handler) await(ctx context.Context, id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	defer context.AfterFunc(h.stopping, cancel)() //nolint:contextcheck // both may end the wait
	err := h.Engine.Wait(ctx, id)
	if err == nil || ctx.Err() != nil { // a database does not always return the error of a context
		return nil
	}
	return stored(err, "operation", id)
}

func viewResult(v store.ItemView) v1.Result {
	r := v1.Result{
		Namespace: v.Process.Namespace, Name: v.Process.Name, Host: v.Asked, Op: string(v.Op),
		Outcome: v1.OutcomePending,
	}
	if v.Cancelling {
		r.Message = "the host was asked to cancel, and has not answered"
	}
	if v.Done && v.Outcome != nil {
		r.Outcome, r.Message, r.Hosted = v1.OutcomeOK, v.Outcome.Text, v.Outcome.Hosted
		if text, found := process.Already(v.Op, v.Outcome.Fault); found {
			r.Message, r.Already = text, true
		} else if v.Outcome.Fault != process.None {
			r.Outcome = string(v.Outcome.Fault)
		}
	}
	return r
}

// hostOf returns the host of a result, for the check of rights.
func (h *Handler) hostOf(v store.ItemView) access.Host {
	if a, found := h.Directory.LookupID(v.Asked); found {
		return gate.Host(a)
	}
	return access.Host{Area: v.Cloud, IP: v.IP, ID: v.Asked}
}

// listResults lists the results of the targets of a task.
func (h *Handler) listResults(ctx context.Context, c *call) (reply, error) {
	id := c.subject("id")
	outcome := c.params.choice("outcome", v1.OutcomeOK, v1.OutcomeFailed, v1.OutcomePending)
	skip := 0
	limit, err := c.params.page(&skip)
	if err != nil {
		return reply{}, err
	}
	app, err := h.taskApp(ctx, c, id)
	if err != nil {
		return reply{}, stored(err, "operation", id)
	}
	var views []v1.Result
	seen, shown := 0, 0
	errFull := errors.New("page is full")
	err = h.Results(ctx, c.Call, id, app, h.hostOf, func(v store.ItemView) error {
		if len(views) == limit || shown >= mostShown {
			return errFull
		}
		seen++
		if r := viewResult(v); seen > skip && (outcome == "" || outcome == kindOf(r.Outcome)) {
			views = append(views, r)
			shown += len(r.Message)
		}
		return nil
	})
	if denied, ok := errors.AsType[*edge.DeniedError](err); ok {
		return reply{}, forbidden(denied.Missing)
	}
	h.sayNeverBegins(ctx, id, app, views)
	c.Audit.Targets = len(views)
	var last any
	switch {
	case errors.Is(err, errFull):
		last = seen
	case err != nil:
		return reply{}, stored(err, "operation", id)
	}
	return reply{status: http.StatusOK, body: pageOf(c, views, last), weight: shown}, nil
}

// kindOf returns the kind of an outcome for a filter: every fault is a failure.
func kindOf(outcome string) string {
	if outcome == v1.OutcomeOK || outcome == v1.OutcomePending {
		return outcome
	}
	return v1.OutcomeFailed
}

// sayNeverBegins corrects the results of a rollout on one host: its hosts ask before they begin.
func (h *Handler) sayNeverBegins(ctx context.Context, id, app string, results []v1.Result) {
	of := store.RolloutOf(id)
	if of == "" || !slices.ContainsFunc(results, func(r v1.Result) bool { return task.NeverTaken(r.Message) }) {
		return
	}
	if r, err := h.Rollouts.GetRollout(ctx, of, app); err != nil || !r.Plan.OneOf {
		return
	}
	for i := range results {
		results[i].Message = task.Asked(results[i].Message)
	}
}

// leavingOut is the answer to a request whose selection leaves out n processes.
func leavingOut(answer any, n int) any {
	switch body := answer.(type) {
	case v1.Operation:
		body.LeftOut = n
		return body
	case v1.Rollout:
		body.LeftOut = n
		return body
	}
	return answer
}
