package apiv1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
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
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/server/task"
)

// Limits of one operation.
const (
	maxTargets = 10_000
	maxItems   = 100_000
	// longestHostTimeout is in seconds.
	longestHostTimeout = int(task.WaitLimit / time.Second)
)

// operationRequest is v1.Request with lists that stop decoding at their limits.
type operationRequest struct {
	Op      process.Op          `json:"op"`
	Targets list[targetRequest] `json:"targets"`
	// Processes are patterns, which expand turns into targets. hosts and labels narrow them.
	Processes list[string] `json:"processes"`
	Hosts     list[string] `json:"hosts"`
	Labels    *string      `json:"labels"`
	// Select is an expression that the hosts of every target must match; nil for any host.
	Select *string `json:"select"`
	choice hostChoice
	labels selector.Selector
	// Selection is the id of a held selection, which takeSelection turns into targets.
	Selection string `json:"selection"`
	Signal    string `json:"signal"`
	Scope     string `json:"scope"`
	// TakeOver and Beside are what a start does beside copies; at most one of them is set.
	TakeOver bool `json:"take_over"`
	Beside   bool `json:"beside"`
	// Force is for a restart or a reload that goes past the preflight.
	Force bool `json:"force"`
	// Given is the spec in the form of files, and Spec the same in the form of agents.
	Given json.RawMessage `json:"spec"`
	Spec  *process.Spec   `json:"-"`
	// HostTimeout is how many seconds each host has to accept its items; nil means the longest time.
	HostTimeout *int `json:"host_timeout_seconds"`
	// Rollout is nil if all hosts begin at once.
	Rollout       *v1.RolloutPlan `json:"rollout"`
	OneOf         bool            `json:"one_of"`
	AgainWhenLost bool            `json:"again_when_lost"`
	// At is when the rollout begins; empty means at once.
	At string `json:"at"`
	// dry answers what the request would do, and stores nothing.
	dry bool
}

// list decodes at most one entry more than maxItems, because decoded entries take more memory than their text.
type list[T any] []T

// UnmarshalJSON implements json.Unmarshaler. It keeps one entry more than maxItems, so that validation sees that the
// list is too long. An empty list is not nil, as an absent one is.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	first, err := d.Token()
	if err != nil || first == nil {
		return err
	}
	if first != json.Delim('[') {
		var all []T
		return json.Unmarshal(text, &all) // json returns the error about the other type
	}
	for *l = (list[T]{}); d.More() && len(*l) <= maxItems; {
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

// hostTimeout returns the host timeout of the task.
func (r *operationRequest) hostTimeout() time.Duration {
	if r.HostTimeout == nil {
		return 0
	}
	return time.Duration(*r.HostTimeout) * time.Second
}

// targetRequest is v1.Target with lists that stop decoding at their limits.
type targetRequest struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Hosts     list[string] `json:"hosts"`
}

func (t *targetRequest) id() process.ID { return process.ID{Namespace: t.Namespace, Name: t.Name} }

// createOperation stores an operation and returns it; the engine executes it.
func (h *Handler) createOperation(ctx context.Context, c *call) (reply, error) {
	var req operationRequest
	dry := c.params.flag("dry_run")
	check := func() error { return req.validate(h.Now()) }
	if err := c.decode(ctx, &req, check); err != nil {
		return reply{}, err
	}
	req.dry = dry != nil && *dry
	if err := check(); err != nil {
		return reply{}, err
	}
	if req.Selection == "" {
		return h.operate(ctx, c, &req, nil)
	}
	s, err := h.takeSelection(ctx, c, &req)
	if err != nil {
		return reply{}, err
	}
	answer, err := h.operate(ctx, c, &req, nil)
	if err != nil {
		return answer, err
	}
	n, err := h.came(ctx, &c.Principal, s)
	if err != nil { // the number only informs
		h.Log.InfoContext(ctx, "cannot count what a selection leaves out", "selection", s.id, "error", err)
	}
	answer.body = leavingOut(answer.body, n)
	return answer, nil
}

// operate stores an operation or its rollout. run is the run of a schedule that it carries out; nil if there is none.
func (h *Handler) operate(ctx context.Context, c *call, req *operationRequest, run *store.ScheduleRun) (reply, error) {
	if err := h.expand(ctx, &c.Principal, req); err != nil {
		return reply{}, err
	}
	if err := req.oneProcess(); err != nil {
		return reply{}, err
	}
	subject := edge.Clip(req.Targets[0].id().String())
	c.Audit.Target = subject
	requests, items, err := h.resolve(ctx, &c.Principal, req)
	if err != nil {
		return reply{}, err
	}
	if err := req.checkHidden(); err != nil {
		return reply{}, err
	}
	if req.dry {
		return h.planOperation(ctx, c, req, requests)
	}
	if req.Rollout != nil || req.OneOf {
		return h.createRollout(ctx, c, req, requests, run)
	}
	if err := h.narrow(hostsIn(requests), req.Op); err != nil {
		return reply{}, err
	}
	t := h.NewTask(c.Call)
	t.ID, t.Requests, t.HostTimeout, t.Ordered = newTaskID(), requests, req.hostTimeout(), true
	t.Through, t.Selector = v1.ThroughOperation, req.choice.selector.String()
	if run != nil {
		run.Task = t.ID
		t.Run, t.Reason = run, "schedule "+run.Schedule
	}
	c.Operates(subject, items, t.ID, map[process.Op]int{req.Op: items})
	if err := h.Submit(ctx, c.Call, t); err != nil {
		return reply{}, accepting(err)
	}
	stored := store.TaskSummary{
		ID: t.ID, App: t.App, User: t.User, RequestID: t.RequestID, Created: t.Created, Op: req.Op,
		Process:  requests[0].Process,
		Requests: len(requests), Keys: items, Open: items, Selector: t.Selector, Reason: t.Reason,
	}
	return reply{status: http.StatusAccepted, body: viewOperation(stored), location: "/operations/" +
		url.PathEscape(t.ID)}, nil
}

// expand replaces the patterns of a request by the processes that the caller may query and that match: one target for
// each process, with its hosts.
func (h *Handler) expand(ctx context.Context, who *access.Principal, req *operationRequest) error {
	if len(req.Processes) == 0 {
		return nil
	}
	which := processChoice{labels: req.labels}
	hosts := hostChoice{names: req.Hosts, selector: req.choice.selector}
	r := eventReader{h: h, who: who}
	place, seen, items := map[process.ID]int{}, map[store.ObservedKey]bool{}, 0
	for _, pattern := range req.Processes {
		f := store.ObservedFilter{Copies: true, Agents: h.chosen(hosts), Spec: !which.labels.IsZero()}
		f.Namespace, f.Name, _ = strings.Cut(pattern, "/")
		f.Within = r.within(f.Namespace)
		err := h.eachObserved(ctx, f, func(o *store.Observed) {
			a, known := h.Directory.ByKey(o.Agent)
			key := store.ObservedKey{Agent: o.Agent, Process: o.Process}
			if !known || seen[key] || items > maxItems || !r.at(o.Process).Covers(gate.Host(a)) || !which.matches(o) {
				return
			}
			seen[key] = true
			items++
			at, met := place[o.Process]
			if !met {
				at = len(req.Targets)
				place[o.Process] = at
				req.Targets = append(req.Targets, targetRequest{Namespace: o.Process.Namespace, Name: o.Process.Name})
			}
			req.Targets[at].Hosts = append(req.Targets[at].Hosts, nameOf(a))
		})
		if err != nil {
			return err
		}
	}
	if len(req.Targets) == 0 {
		p := invalid("processes", "no process matches")
		p.nothing = true
		return p
	}
	if n := len(req.Targets); n > maxTargets {
		return invalid("processes", "match %d processes: expected at most %d", n, maxTargets)
	}
	return nil
}

// hostsIn counts the hosts of requests.
func hostsIn(requests []store.Request) int {
	agents := map[string]bool{}
	for i := range requests {
		for _, t := range requests[i].Targets {
			agents[t.Agent] = true
		}
	}
	return len(agents)
}

// accepting turns the error of a rejected operation into a problem.
func accepting(err error) error {
	if busy, ok := errors.AsType[*task.BusyError](err); ok {
		p := problemf(http.StatusTooManyRequests, "%v", busy)
		p.retryAfter = busy.Seconds()
		return p
	}
	return failure("accept the operation", err)
}

// validate reports the faults of the request, and completes its spec.
func (r *operationRequest) validate(now time.Time) error {
	var faults []error
	if !r.known() {
		faults = append(faults, invalid("op", "is %.40q: expected one of %s", r.Op, strings.Join(supported(), ", ")))
	}
	faults = append(faults, r.readProcesses(), r.readTargets())
	if r.Select != nil {
		var err error
		if r.choice.selector, err = selector.Parse(*r.Select); err != nil {
			faults = append(faults, invalid("select", "%v", err))
		}
	}
	if n := r.HostTimeout; n != nil && (*n < 1 || *n > longestHostTimeout) {
		faults = append(faults, invalid("host_timeout_seconds", "is %d: expected 1 to %d", *n, longestHostTimeout))
	}
	// The first of these completes the operation.
	return together(append(faults, r.readSignal(), r.readSpec(), r.readPlan(now), r.readBeside(), r.readForce())...)
}

// known reports whether the operation is one of this API. Of another one nobody knows what belongs to it.
func (r *operationRequest) known() bool { return r.Op.Info().OwnAPI }

// readTargets checks the names of processes and hosts.
func (r *operationRequest) readTargets() error {
	if n := len(r.Targets); n == 0 && len(r.Processes) == 0 && r.Selection == "" || n > maxTargets {
		return invalid("targets", "has %d entries: expected 1 to %d", n, maxTargets)
	}
	var faults []error
	for i := range r.Targets {
		if err := process.ValidateID(r.Targets[i].id()); err != nil {
			faults = append(faults, invalidPart(fmt.Sprintf("targets[%d].", i), "meta.", err))
		}
		faults = append(faults, checkHosts(fmt.Sprintf("targets[%d].hosts", i), r.Targets[i].Hosts))
		if len(faults) > mostFaults {
			break
		}
	}
	return together(faults...)
}

// mostFaults bounds the list of faults of a long request.
const mostFaults = 100

// checkHosts reports the first host without a name, and an empty list: for a program that has found nothing it must not
// stand for every host.
func checkHosts(field string, hosts []string) error {
	if hosts != nil && len(hosts) == 0 {
		return invalid(field, "is empty: expected hosts, or no such list")
	}
	if i := slices.Index(hosts, ""); i >= 0 {
		return invalid(fmt.Sprintf("%s[%d]", field, i), "is empty")
	}
	return nil
}

// readProcesses checks the patterns of processes, and what narrows them.
func (r *operationRequest) readProcesses() (err error) {
	if r.Selection != "" && (len(r.Targets)+len(r.Processes) > 0 || r.Select != nil || r.Given != nil) {
		return invalid("selection", "stands beside targets, processes, select or spec: expected one of them")
	}
	if len(r.Processes) == 0 {
		switch {
		case r.Hosts != nil:
			return invalid("hosts", "is for processes: expected processes beside it, or hosts in each target")
		case r.Labels != nil:
			return invalid("labels", "is for processes: expected processes beside it")
		}
		return nil
	}
	faults := []error{checkProcesses("processes", r.Processes), checkHosts("hosts", r.Hosts)}
	if len(r.Targets) > 0 {
		faults = append(faults, invalid("processes", "stands beside targets: expected one of them"))
	}
	if r.Given != nil {
		faults = append(faults, invalid("spec", "is not for processes: expected targets"))
	}
	if r.Labels != nil {
		if r.labels, err = selector.Parse(*r.Labels); err != nil {
			faults = append(faults, invalid("labels", "%v", err))
		}
	}
	return together(faults...)
}

// readSignal completes the operation with the signal that it sends.
func (r *operationRequest) readSignal() error {
	var faults []error
	if r.known() && r.Op != process.Signal {
		for _, field := range [][2]string{{"signal", r.Signal}, {"scope", r.Scope}} {
			if field[1] != "" {
				faults = append(faults, invalid(field[0], "is not for the operation %s", r.Op))
			}
		}
		return together(faults...)
	}
	name, err := v1.SignalName(r.Signal)
	if err != nil && (r.known() || r.Signal != "") {
		faults = append(faults, invalid("signal", "is %.40q: expected the name of a signal, such as HUP or USR1", r.Signal))
	}
	if r.Scope != "" && r.Scope != v1.ScopeProcess && r.Scope != v1.ScopeTree {
		faults = append(faults, invalid("scope", "is %.40q: expected %s or %s", r.Scope, v1.ScopeProcess, v1.ScopeTree))
	}
	if len(faults) == 0 && r.known() {
		r.Op = process.SignalOp(name, r.Scope == v1.ScopeTree)
	}
	return together(faults...)
}

// readSpec reads the given spec.
func (r *operationRequest) readSpec() error {
	var given *v1.Spec
	var err error
	if r.Given != nil {
		if given, err = processfile.ReadSpecJSON(r.Given); err != nil {
			return invalidFile("spec", err)
		}
	}
	if given == nil {
		if r.Op.Info().Spec == process.SpecSent {
			return invalid("spec", "is missing: %s needs one", r.Op)
		}
		return nil
	}
	var wrong []error
	for i := range r.Targets {
		if faults := processfile.CheckName(r.Targets[i].Name, *given); len(faults) > 0 && len(wrong) < mostFaults {
			wrong = append(wrong, invalid(fmt.Sprintf("targets[%d].name", i), "%s", faults[0].Text))
		}
	}
	spec := processfile.ToSpec(*given)
	r.Spec = &spec
	if faults := processfile.FaultsOf(r.Spec, r.Op); r.known() && len(faults) > 0 {
		wrong = append(wrong, invalidFile("spec", faults))
	}
	return together(wrong...)
}

// reached finds the agents of a target. hidden describes, for a rejection, the hosts outside the caller's reach; the
// caller learns nothing else about them.
func (h *Handler) reached(ctx context.Context, req *operationRequest, at int,
	reach access.Reach,
) (agents []store.Agent, hidden string, err error) {
	t := &req.Targets[at]
	agents, stranger, err := h.agentsOf(ctx, req, t, reach)
	field := fmt.Sprintf("targets[%d]", at)
	switch {
	case err != nil:
		return nil, "", err
	case stranger >= 0 && reach.Covers(namedHost(t.Hosts[stranger])):
		return nil, "", invalid(fmt.Sprintf("%s.hosts[%d]", field, stranger), "there is no host %.100q",
			t.Hosts[stranger])
	case stranger >= 0:
		return nil, edge.Clip(t.Hosts[stranger]), nil
	case len(t.Hosts) == 0 && !coversAll(reach, agents): // the caller does not learn where else the process is
		return nil, "every host that knows it", nil
	case len(agents) == 0 && req.Select != nil:
		return nil, "", invalid("select", "no host of process %q matches %s", t.id().String(), req.choice.selector)
	case len(agents) == 0:
		return nil, "", invalid(field, "no host knows a process %q: name the hosts", t.id().String())
	}
	return agents, "", nil
}

// resolve finds the agents of every target and checks the rights to them. It returns the requests and their number of
// items.
func (h *Handler) resolve(ctx context.Context, who *access.Principal, req *operationRequest) (
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

// resolveOf is resolve for a caller who sees the hosts of who, and may do what whole may do.
func (h *Handler) resolveOf(ctx context.Context, who, whole *access.Principal, req *operationRequest) (
	[]store.Request, int, error,
) {
	right := access.OperationOf(req.Op)
	var missing access.Missing
	requests := requestsOf{op: req, place: map[requestKind]int{}}
	seen := map[store.ObservedKey]bool{}
	for i := range req.Targets {
		t := &req.Targets[i]
		id := t.id()
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
			name := nameOf(a)
			r.Targets = append(r.Targets, store.Target{Key: store.ResultKey(id, name), Asked: name, Agent: a.Key})
		}
		if len(seen) > maxItems {
			return nil, 0, invalid("targets", "make more than %d operations in all", maxItems)
		}
	}
	if missing.Any() {
		return nil, 0, forbidden(missing)
	}
	return requests.list, len(seen), nil
}

// requestsOf holds the requests of an operation: one for each process and each kind of spec.
type requestsOf struct {
	op    *operationRequest
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
			r.list[i].Spec, r.list[i].Stored = nil, r.op.Spec
		}
	}
	return &r.list[i]
}

// boundBy returns the hosts on which the caller may not use its own spec, because it may not decide there what runs.
// The value of a host is true if the given spec equals the stored spec there, which is always allowed.
func (h *Handler) boundBy(ctx context.Context, who *access.Principal, req *operationRequest, id process.ID,
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
	err := h.eachObserved(ctx, store.ObservedFilter{Process: id, Agents: keys, Spec: true}, func(o *store.Observed) {
		bound[o.Agent] = o.Spec.Same(req.Spec)
	})
	return bound, err
}

// coversAll reports whether all of the hosts are within reach.
func coversAll(reach access.Reach, agents []store.Agent) bool {
	return !slices.ContainsFunc(agents, func(a store.Agent) bool { return !reach.Covers(gate.Host(a)) })
}

// namedHost returns an unknown host by the name that the caller gave, for the check of rights.
func namedHost(name string) access.Host {
	area, ip, _ := strings.Cut(name, ":")
	n, err := strconv.Atoi(area)
	addr, bad := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(ip, "["), "]"))
	if err != nil || n < 0 || bad != nil {
		return access.Host{Area: access.NoArea, ID: name}
	}
	return access.Host{Area: n, IP: addr.Unmap().String()}
}

// agentsOf returns the hosts of a target that match the selector of the request: of the named hosts, or of the hosts
// that know the process. It keeps a named host outside the caller's reach, whose labels the caller must not learn. A
// registration with a selector and without names is for every host that matches. stranger is
// the index of the first unknown name; -1 if there is none.
func (h *Handler) agentsOf(ctx context.Context, req *operationRequest, t *targetRequest, reach access.Reach,
) (agents []store.Agent, stranger int, err error) {
	add := func(a store.Agent, known bool) {
		if known && req.choice.selects(&a) {
			agents = append(agents, a)
		}
	}
	for n, name := range t.Hosts {
		a, found := h.Directory.LookupID(name)
		if !found {
			return nil, n, nil
		}
		if req.choice.selects(&a) || !reach.Covers(gate.Host(a)) {
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
		err = h.eachObserved(ctx, store.ObservedFilter{Process: t.id()}, func(o *store.Observed) {
			add(h.Directory.ByKey(o.Agent))
		})
	}
	return agents, -1, err
}
