package apiv1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/crontab"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/plan"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// The bounds of schedules.
const (
	maxSchedules       = 1000 // in all
	maxSchedulesOfApp  = 500
	maxScheduleName    = 60
	maxScheduleMessage = 1000
	// mostCandidates is how many hosts an operation on one host may try.
	mostCandidates = 20
	// timesShown is how many next times of a schedule the API shows.
	timesShown = 3
	// furthest is how far ahead a rollout may begin.
	furthest = 366 * 24 * time.Hour
)

// scheduleTable lists the paths of schedules.
func (h *Handler) scheduleTable() []route {
	return []route{
		{v1.RouteCreateSchedule, "schedules.create", anyone, h.createSchedule},
		{v1.RouteListSchedules, "schedules.list", anyone, h.listSchedules},
		{v1.RouteGetSchedule, "schedules.get", anyone, h.getSchedule},
		{v1.RoutePauseSchedule, "schedules.pause", anyone, h.pauseSchedule},
		{v1.RouteResumeSchedule, "schedules.resume", anyone, h.resumeSchedule},
		{v1.RouteRunSchedule, "schedules.run", anyone, h.runSchedule},
		{v1.RouteRemoveSchedule, "schedules.remove", anyone, h.removeSchedule},
	}
}

// checkProcesses reports the patterns that are not NAMESPACE/NAME.
func checkProcesses(field string, patterns []string) error {
	if err := checkPatterns(field, patterns); err != nil {
		return err
	}
	var faults []error
	for i, p := range patterns {
		if namespace, name, found := strings.Cut(p, "/"); !found || namespace == "" || name == "" {
			faults = append(faults, invalid(fmt.Sprintf("%s[%d]", field, i),
				"is %q: expected NAMESPACE/NAME, such as shop/*", edge.Clip(p)))
		}
	}
	return together(faults...)
}

// timetable reads a crontab rule and its time zone.
func timetable(cron, zone string) (crontab.Rule, error) {
	var faults []error
	if zone != "" {
		if _, err := crontab.Zone(zone); err != nil {
			faults, zone = append(faults, invalid("time_zone", "%v", err)), ""
		}
	}
	rule, err := crontab.ParseIn(cron, zone)
	switch {
	case cron == "":
		faults = append(faults, invalid("cron", "is missing: expected five fields, such as 0 3 * * *"))
	case err != nil:
		faults = append(faults, invalid("cron", "%v", err))
	}
	return rule, together(faults...)
}

// beginning reads when a rollout begins: the next such time of day in the zone of now, or a time in RFC 3339.
func beginning(text string, now time.Time) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if clock, err := time.Parse("15:04", text); err == nil {
		on := func(days int) time.Time {
			year, month, day := now.Date()
			return time.Date(year, month, day+days, clock.Hour(), clock.Minute(), 0, 0, now.Location())
		}
		if at = on(0); !at.After(now) {
			at = on(1)
		}
		return at, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return at, invalid("at",
			"is %.40q: expected a time of day such as 03:00, or a time such as 2026-11-20T03:00:00Z", text)
	case at.Before(now):
		return at, invalid("at", "is %s, which is past: expected a time in the next 366 days", text)
	case at.Sub(now) > furthest:
		return at, invalid("at", "is %s, which is too far ahead: expected a time in the next 366 days", text)
	}
	return at, nil
}

// readOneOf checks an operation on one host.
func (r *operationRequest) readOneOf() error {
	var faults []error
	switch {
	case !r.OneOf && r.AgainWhenLost:
		return invalid("again_when_lost", "is for one_of: expected one_of beside it")
	case !r.OneOf:
		return nil
	case r.known() && !r.Op.Info().RollsOut:
		faults = append(faults, invalid("one_of", "is not for the operation %s: expected start, stop, restart, reload, "+
			"kill, signal, host, unhost, retry or unregister", r.Op))
	}
	if r.Rollout != nil {
		faults = append(faults, invalid("one_of", "stands beside rollout: expected one of them"))
	}
	if r.Given != nil {
		faults = append(faults, invalid("spec", "is not for one_of: the host uses its stored spec"))
	}
	return together(faults...)
}

// oneProcess checks that an operation on one host is about one process: of several, each could begin on another host.
func (r *operationRequest) oneProcess() error {
	first := r.Targets[0].id()
	for i := range r.Targets {
		if id := r.Targets[i].id(); r.OneOf && id != first {
			return invalid("one_of", "is for one process: the request is about %s and %s", first, id)
		}
	}
	return nil
}

// planOperation answers what an operation would do.
func (h *Handler) planOperation(ctx context.Context, c *call, req *operationRequest, requests []store.Request) (
	reply, error,
) {
	var p v1.OperationPlan
	var agents []string
	for i := range requests {
		r := &requests[i]
		t := v1.Target{Namespace: r.Process.Namespace, Name: r.Process.Name}
		for _, host := range r.Targets {
			t.Hosts, agents = append(t.Hosts, host.Asked), append(agents, host.Agent)
		}
		p.Targets = append(p.Targets, t)
		c.Audit.Targets += len(t.Hosts)
	}
	p.Away = h.away(agents)
	if req.Rollout == nil && !req.OneOf {
		if err := h.narrow(hostsIn(requests), req.Op); err != nil {
			p.Reason, p.Refused = err.Error(), http.StatusForbidden
		}
		return ok(p)
	}
	r, err := h.rolloutOf(c, req, requests)
	if err != nil {
		return reply{}, err
	}
	return h.planRollout(ctx, p, r)
}

// rolloutOf returns the rollout of an operation, which is not stored yet.
func (h *Handler) rolloutOf(c *call, req *operationRequest, requests []store.Request) (*store.Rollout, error) {
	r := h.newRollout(c, req.Op)
	at, err := beginning(req.At, h.Now())
	if err != nil {
		return nil, err
	}
	r.HostTimeout, r.Selector, r.Through = req.hostTimeout(), req.choice.selector.String(), v1.ThroughOperation
	var steps []plan.Step
	for i := range requests {
		for _, t := range requests[i].Targets {
			steps = append(steps, plan.Step{Op: req.Op, Process: requests[i].Process, Agent: t.Agent, Host: t.Asked})
		}
	}
	if req.OneOf {
		h.layOne(r, req, steps)
	} else {
		h.lay(r, req.Rollout, at, steps)
	}
	return r, nil
}

// layOne sets the steps and the hosts of a rollout that carries out an operation on one of them: the connected hosts
// come first, each in the order of the names. It takes the first mostCandidates only, because each run stores them.
func (h *Handler) layOne(r *store.Rollout, req *operationRequest, steps []plan.Step) {
	h.lay(r, &v1.RolloutPlan{Batch: v1.HostCount{Number: 1}, SkipAway: true}, time.Time{}, steps)
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

// scheduleRequest is v1.ScheduleRequest with lists that stop decoding at their limits.
type scheduleRequest struct {
	Name     string           `json:"name"`
	Cron     string           `json:"cron"`
	TimeZone string           `json:"time_zone"`
	Message  string           `json:"message"`
	Request  operationRequest `json:"request"`
}

// schedule checks a request for a schedule.
func (r *scheduleRequest) schedule(now time.Time) (s store.Schedule, err error) {
	_, err = timetable(r.Cron, r.TimeZone)
	faults := []error{err, checkLength("message", r.Message, maxScheduleMessage)}
	fail := func(field, format string, args ...any) { faults = append(faults, invalid(field, format, args...)) }
	if n := len(r.Name); n == 0 || n > maxScheduleName || !plain(r.Name, "-_.") {
		fail("name", "is %q: expected 1 to %d letters, digits, -, _ and .", edge.Clip(r.Name), maxScheduleName)
	}
	q := &r.Request
	without := len(q.Targets) > 0 || len(q.Processes) == 0
	if without {
		fail("request.processes", "is missing: a schedule names its processes by patterns, such as shop/*")
	}
	if q.Given != nil {
		fail("request.spec", "is not for a schedule: every host uses its stored spec")
	}
	if names := slices.Compact(slices.Sorted(slices.Values(q.Processes))); q.OneOf && len(names) > 1 {
		fail("request.one_of", "is for one process: the schedule names %s and %s", names[0], names[1])
	}
	if q.At != "" {
		fail("request.at", "is not for a schedule: its runs begin at once")
	}
	if q.TakeOver || q.Beside {
		fail("request.take_over", "is not for a schedule: nobody looks at its copies")
	}
	asked := v1.Request{
		Op: string(q.Op), Processes: q.Processes, Hosts: q.Hosts, Signal: q.Signal, Scope: q.Scope,
		Rollout: q.Rollout, OneOf: q.OneOf, AgainWhenLost: q.AgainWhenLost,
	}
	if q.Select != nil {
		asked.Select = *q.Select
	}
	if q.Labels != nil {
		asked.Labels = *q.Labels
	}
	if q.HostTimeout != nil {
		asked.HostTimeout = *q.HostTimeout
	}
	if err := q.validate(now); err != nil {
		p := problemOf(err)
		p.Fields = slices.DeleteFunc(p.Fields, func(f v1.FieldError) bool { // told already
			field, _, _ := strings.Cut(f.Field, ".")
			return field == "spec" && q.Given != nil || field == "at" || field == "take_over" || field == "beside" ||
				without && (strings.HasPrefix(field, "targets") || field == "processes")
		})
		if len(p.Fields) > 0 {
			faults = append(faults, within("request", p))
		}
	}
	if err := together(faults...); err != nil {
		return s, err
	}
	text, err := json.Marshal(asked)
	return store.Schedule{
		Name: r.Name, Cron: r.Cron, Zone: r.TimeZone, Message: r.Message, Request: text, Created: now, Looked: now,
	}, err
}

// mayNowhere returns a right of the caller that it has on no host, for one of the patterns.
func mayNowhere(who *access.Principal, right access.Operation, patterns []string) (missing access.Missing) {
	for _, pattern := range patterns {
		reach := who.Anywhere(right)
		if namespace, _, _ := strings.Cut(pattern, "/"); !wildcard.IsPattern(namespace) {
			reach = who.On(right, namespace)
		}
		if reach.Nowhere() {
			missing.Found(right, pattern, "")
		}
	}
	return missing
}

// strangers reports the names of no host in a new schedule, as far as the caller may read hosts. Patterns may match
// later.
func (h *Handler) strangers(who *access.Principal, names []string) error {
	reach := who.OnHosts(access.ReadAgents)
	var faults []error
	for i, name := range names {
		if _, found := h.Directory.LookupID(name); found || name == "" || wildcard.IsPattern(name) ||
			!reach.Covers(namedHost(name)) || len(faults) == mostFaults {
			continue
		}
		faults = append(faults, invalid(fmt.Sprintf("request.hosts[%d]", i), "is %.100q: there is no such host%s", name,
			h.sameAddress(names[i:i+1], reach)))
	}
	return together(faults...)
}

// mayRun reports why no run of a new schedule could begin with the processes and hosts that match now.
func (h *Handler) mayRun(ctx context.Context, who *access.Principal, req operationRequest) error {
	switch err := h.expand(ctx, who, &req); {
	case err != nil && problemOf(err).nothing:
		return nil // each run looks again
	case err != nil:
		return within("request", err)
	}
	if err := req.oneProcess(); err != nil {
		return within("request", err)
	}
	_, _, err := h.resolve(ctx, who, &req)
	if p, ok := errors.AsType[*problem](err); ok && p.Status == http.StatusForbidden {
		return err
	}
	if req.OneOf || req.Rollout != nil {
		return nil
	}
	hosts := map[string]bool{}
	for i := range req.Targets {
		for _, host := range req.Targets[i].Hosts {
			hosts[host] = true
		}
	}
	return h.narrow(len(hosts), req.Op)
}

func (h *Handler) createSchedule(ctx context.Context, c *call) (reply, error) {
	var req scheduleRequest
	check := func() error {
		_, err := req.schedule(h.Now())
		return err
	}
	if err := c.decode(ctx, &req, check); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Name)
	s, err := req.schedule(h.Now())
	if err := together(err, h.strangers(&c.Principal, req.Request.Hosts)); err != nil {
		return reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(map[string]any{"cron": s.Cron, "time_zone": s.Zone, "request": s.Request})
	right := access.OperationOf(req.Request.Op)
	if missing := mayNowhere(&c.Principal, right, req.Request.Processes); missing.Any() {
		return reply{}, forbidden(missing)
	}
	if err := h.mayRun(ctx, &c.Principal, req.Request); err != nil {
		return reply{}, err
	}
	list, err := h.Schedules.ListSchedules(ctx, "")
	if err != nil {
		return reply{}, failure("list the schedules", err)
	}
	if len(list) >= maxSchedules {
		return reply{}, problemf(http.StatusConflict, "there are %d schedules already: expected at most %d", len(list),
			maxSchedules)
	}
	ofApp := 0
	for i := range list {
		if list[i].App == c.Principal.App {
			ofApp++
		}
	}
	if ofApp >= maxSchedulesOfApp {
		return reply{}, problemf(http.StatusConflict, "the app has %d schedules already: expected at most %d", ofApp,
			maxSchedulesOfApp)
	}
	s.App, s.User = c.Principal.App, c.Principal.User
	if err := h.Schedules.CreateSchedule(ctx, s); err != nil {
		_, hidden := h.Schedules.GetSchedule(ctx, s.Name, c.app())
		if errors.Is(err, store.ErrExists) && errors.Is(hidden, store.ErrNotFound) {
			return reply{}, problemf(http.StatusConflict, "another app has a schedule %q: choose another name", s.Name)
		}
		return reply{}, stored(err, "schedule", s.Name)
	}
	return reply{
		status: http.StatusCreated, body: h.viewSchedule(&s), location: "/schedules/" + url.PathEscape(s.Name),
	}, nil
}

func (h *Handler) viewSchedule(s *store.Schedule) v1.OperationSchedule {
	v := v1.OperationSchedule{
		Name: s.Name, Cron: s.Cron, TimeZone: s.Zone, Message: s.Message, State: v1.ScheduleActive, App: s.App,
		User: s.User, CreatedAt: s.Created, Missed: s.Missed, NextAt: []time.Time{},
	}
	_ = json.Unmarshal(s.Request, &v.Request) // createSchedule has encoded it
	if s.Last != nil {
		last := viewRun(*s.Last)
		v.Last = &last
	}
	if s.Paused {
		v.State = v1.SchedulePaused
		return v
	}
	rule, err := crontab.ParseIn(s.Cron, s.Zone)
	for at := h.Now(); err == nil && len(v.NextAt) < timesShown; {
		next, more := rule.Next(at)
		if !more {
			break
		}
		v.NextAt, at = append(v.NextAt, next), next
	}
	return v
}

func viewRun(r store.ScheduleRun) v1.ScheduleRun {
	v := v1.ScheduleRun{
		DueAt: r.Due, State: string(r.State), Message: r.Text, Operation: r.Task, Rollout: r.Rollout,
		EndedAt: given(r.Ended), RunBy: r.User,
	}
	if r.Count > 1 {
		v.Times = r.Count
	}
	return v
}

// listSchedules lists the schedules of the caller's app, on one page.
func (h *Handler) listSchedules(ctx context.Context, c *call) (reply, error) {
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	list, err := h.Schedules.ListSchedules(ctx, c.app())
	if err != nil {
		return reply{}, failure("list the schedules", err)
	}
	c.Audit.Targets = len(list)
	return ok(pageOf(c, viewed(list, func(s store.Schedule) v1.OperationSchedule { return h.viewSchedule(&s) }), nil))
}

// scheduleNamed returns the schedule of a path. The schedule of another app does not exist for the caller.
func (h *Handler) scheduleNamed(ctx context.Context, c *call) (store.Schedule, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return store.Schedule{}, err
	}
	s, err := h.Schedules.GetSchedule(ctx, name, c.app())
	return s, stored(err, "schedule", name)
}

func (h *Handler) getSchedule(ctx context.Context, c *call) (reply, error) {
	s, err := h.scheduleNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return h.showSchedule(ctx, &s)
}

// showSchedule answers a schedule with its runs.
func (h *Handler) showSchedule(ctx context.Context, s *store.Schedule) (reply, error) {
	runs, err := h.Schedules.ListRuns(ctx, s.Name, store.KeptRuns)
	if err != nil {
		return reply{}, failure("list the runs of the schedule", err)
	}
	v := h.viewSchedule(s)
	v.Runs = viewed(runs, viewRun)
	if len(v.Runs) > 0 {
		v.Last = &v.Runs[0]
	}
	return ok(v)
}

func (h *Handler) pauseSchedule(ctx context.Context, c *call) (reply, error) {
	return h.haltSchedule(ctx, c, true)
}

func (h *Handler) resumeSchedule(ctx context.Context, c *call) (reply, error) {
	return h.haltSchedule(ctx, c, false)
}

func (h *Handler) haltSchedule(ctx context.Context, c *call, pause bool) (reply, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	s, err := h.Schedules.PauseSchedule(ctx, name, c.app(), pause, h.Now())
	if err != nil {
		return reply{}, stored(err, "schedule", name)
	}
	return h.showSchedule(ctx, &s)
}

func (h *Handler) removeSchedule(ctx context.Context, c *call) (reply, error) {
	name := c.subject("name")
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	if _, err := h.Schedules.RemoveSchedule(ctx, name, c.app(), h.Now()); err != nil {
		return reply{}, stored(err, "schedule", name)
	}
	return reply{status: http.StatusNoContent}, nil
}

// runSchedule begins a run now, with the rights of the caller.
func (h *Handler) runSchedule(ctx context.Context, c *call) (reply, error) {
	s, err := h.scheduleNamed(ctx, c)
	if err != nil {
		return reply{}, err
	}
	run := store.ScheduleRun{
		Schedule: s.Name, Created: s.Created, Due: h.Now(), State: store.RunRunning, Count: 1,
		User: c.Principal.Name(),
	}
	if err := h.begin(ctx, c, &s, &run); err != nil {
		switch p := problemOf(err); {
		case errors.Is(p.cause, store.ErrRunning):
			return reply{}, problemf(http.StatusConflict, "a run of schedule %q goes on: wait for it", s.Name)
		case p.nothing:
			return reply{}, problemf(http.StatusNotFound, "schedule %q: no process matches", s.Name)
		case errors.Is(p.cause, store.ErrDecided):
			return reply{}, stored(store.ErrNotFound, "schedule", s.Name)
		}
		return reply{}, err
	}
	if s, err = h.Schedules.GetSchedule(ctx, s.Name, c.app()); err != nil {
		return reply{}, stored(err, "schedule", s.Name)
	}
	answer, err := h.showSchedule(ctx, &s)
	answer.status = http.StatusAccepted
	return answer, err
}

// begin stores a run and its task or rollout in one transaction, for the caller of a call.
func (h *Handler) begin(ctx context.Context, c *call, s *store.Schedule, run *store.ScheduleRun) error {
	var req operationRequest
	if err := json.Unmarshal(s.Request, &req); err != nil {
		return failure("read the schedule", err)
	}
	if err := req.validate(h.Now()); err != nil {
		return err
	}
	_, err := h.operate(ctx, c, &req, run)
	if err == nil || !problemOf(err).nothing {
		return err
	}
	// Patterns match only what the caller may query.
	for _, right := range []access.Operation{access.OperationOf(req.Op), access.OperationOf(process.Query)} {
		if missing := mayNowhere(&c.Principal, right, req.Processes); missing.Any() {
			return forbidden(missing)
		}
	}
	return err
}

// BeginRun stores a run and its task or rollout in one transaction, with the rights of a principal. If the run cannot
// begin, it returns the state of the run and the reason. An error means that it has not been decided.
func (h *Handler) BeginRun(ctx context.Context, who access.Principal, s *store.Schedule, run store.ScheduleRun) (
	store.RunState, string, error,
) {
	c := &call{Call: &edge.Call{Principal: who, Audit: store.AuditRow{
		At: h.Now(), App: who.App, User: who.User, RequestID: "schedule " + s.Name, Action: "schedules.run",
		Allowed: true,
	}}}
	err := h.begin(ctx, c, s, &run)
	if err == nil {
		return store.RunRunning, "", nil
	}
	p := problemOf(err)
	if p.Status == http.StatusForbidden {
		c.Audit.Code, c.Audit.Message = p.Status, p.Detail
		h.Record(ctx, c.Call, edge.Ending{Denied: true})
	}
	switch {
	case errors.Is(p.cause, store.ErrRunning):
		return store.RunSkipped, "an earlier run goes on", nil
	case p.nothing:
		return store.RunEmpty, "no process matches", nil
	case p.Status == http.StatusConflict:
		return store.RunSkipped, p.Detail, nil
	case p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests:
		if p.cause != nil {
			return "", "", p.cause
		}
		return "", "", p
	}
	if p.broad || p.Status == http.StatusUnprocessableEntity {
		return store.RunFailed, p.Detail, nil
	}
	return store.RunMissed, p.Detail, nil
}
