package operations

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
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/bus"
	"drover/internal/server/edge"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// The bounds of schedules.
const (
	maxSchedules       = 1000 // in all
	maxSchedulesOfApp  = 500
	maxScheduleName    = 60
	maxScheduleMessage = 1000
)

// mostCandidates is the largest number of hosts that an operation on one host tries.
const mostCandidates = 20

// timesShown is how many next times of a schedule the API shows.
const timesShown = 3

// Beginning parses the time at which a rollout begins: a time of day, which means its next occurrence in the zone of
// now, or a time in RFC 3339. An empty text is the zero time.
func Beginning(text string, now time.Time) (at time.Time, err error) {
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
		return at, call.Invalid("at",
			"is %.40q: expected a time of day such as 03:00, or a time such as 2026-11-20T03:00:00Z", text)
	case at.Before(now):
		return at, call.Invalid("at", "is %s, which is past: expected a time in the next 366 days", text)
	case at.Sub(now) > furthest:
		return at, call.Invalid("at", "is %s, which is too far ahead: expected a time in the next 366 days", text)
	}
	return at, nil
}

// ScheduleRequest is v1.ScheduleRequest with lists whose decoding stops at their limits.
type ScheduleRequest struct {
	Name     string  `json:"name"`
	Cron     string  `json:"cron"`
	TimeZone string  `json:"time_zone"`
	Message  string  `json:"message"`
	Request  Request `json:"request"`
}

// Schedule checks a request for a schedule.
func (r *ScheduleRequest) Schedule(now time.Time) (s store.Schedule, err error) {
	_, err = call.Timetable(r.Cron, r.TimeZone)
	faults := []error{err, call.CheckLength("message", r.Message, maxScheduleMessage)}
	fail := func(field, format string, args ...any) { faults = append(faults, call.Invalid(field, format, args...)) }
	if n := len(r.Name); n == 0 || n > maxScheduleName || !call.Plain(r.Name, "-_.") {
		fail("name", "is %q: expected 1 to %d letters, digits, -, _ and .", edge.Clip(r.Name), maxScheduleName)
	}
	q := &r.Request
	without := len(q.Targets) > 0 || len(q.Processes) == 0
	if without {
		fail("request.processes", "is missing: a schedule names its processes by patterns, such as shop/*")
	}
	if q.SpecJSON != nil {
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
		p := call.ProblemOf(err)
		p.Fields = slices.DeleteFunc(p.Fields, func(f v1.FieldError) bool { // told already
			field, _, _ := strings.Cut(f.Field, ".")
			return field == "spec" && q.SpecJSON != nil || field == "at" || field == "take_over" || field == "beside" ||
				without && (strings.HasPrefix(field, "targets") || field == "processes")
		})
		if len(p.Fields) > 0 {
			faults = append(faults, within("request", p))
		}
	}
	if err := call.Together(faults...); err != nil {
		return s, err
	}
	text, err := json.Marshal(asked)
	return store.Schedule{
		Name: r.Name, Cron: r.Cron, Zone: r.TimeZone, Message: r.Message, Request: text, Created: now, Looked: now,
	}, err
}

// mayNowhere returns a right that the caller needs for one of the patterns and has on no host; empty if there is none.
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

// strangers rejects a new schedule with the name of a host that does not exist. It accepts patterns, which may match
// later, and hosts that the caller may not read.
func (h *Handler) strangers(who *access.Principal, names []string) error {
	reach := who.OnHosts(access.ReadAgents)
	var faults []error
	for i, name := range names {
		if _, found := h.Directory.LookupID(name); found || name == "" || wildcard.IsPattern(name) ||
			!reach.Covers(hosts.NamedHost(name)) || len(faults) == call.MostFaults {
			continue
		}
		faults = append(faults, call.Invalid(fmt.Sprintf("request.hosts[%d]", i),
			"is %.100q: there is no such host%s", name, h.hosts.SameAddress(names[i:i+1], reach)))
	}
	return call.Together(faults...)
}

// mayRun returns why no run of a new schedule could begin with the processes and hosts that match now; nil if one
// could.
func (h *Handler) mayRun(ctx context.Context, who *access.Principal, req Request) error {
	switch err := h.expand(ctx, who, &req); {
	case err != nil && call.ProblemOf(err).Nothing:
		return nil // each run looks again
	case err != nil:
		return within("request", err)
	}
	if err := req.oneProcess(); err != nil {
		return within("request", err)
	}
	_, _, err := h.resolve(ctx, who, &req)
	if p, ok := errors.AsType[*call.Problem](err); ok && p.Status == http.StatusForbidden {
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
	return h.CheckBreadth(len(hosts), req.Op)
}

// CreateSchedule creates a schedule.
func (h *Handler) CreateSchedule(ctx context.Context, c *call.Call) (call.Reply, error) {
	var req ScheduleRequest
	check := func() error {
		_, err := req.Schedule(h.Now())
		return err
	}
	if err := c.Decode(ctx, &req, check); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(req.Name)
	s, err := req.Schedule(h.Now())
	if err := call.Together(err, h.strangers(&c.Principal, req.Request.Hosts)); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Detail, _ = json.Marshal(map[string]any{"cron": s.Cron, "time_zone": s.Zone, "request": s.Request})
	right := access.OperationOf(req.Request.Op)
	if missing := mayNowhere(&c.Principal, right, req.Request.Processes); missing.Any() {
		return call.Reply{}, call.Forbidden(missing)
	}
	if err := h.mayRun(ctx, &c.Principal, req.Request); err != nil {
		return call.Reply{}, err
	}
	list, err := h.Schedules.ListSchedules(ctx, "")
	if err != nil {
		return call.Reply{}, call.Failure("list the schedules", err)
	}
	if len(list) >= maxSchedules {
		return call.Reply{}, call.Problemf(http.StatusConflict, "there are %d schedules already: expected at most %d", len(list),
			maxSchedules)
	}
	ofApp := 0
	for i := range list {
		if list[i].App == c.Principal.App {
			ofApp++
		}
	}
	if ofApp >= maxSchedulesOfApp {
		return call.Reply{}, call.Problemf(http.StatusConflict, "the app has %d schedules already: expected at most %d", ofApp,
			maxSchedulesOfApp)
	}
	s.App, s.User = c.Principal.App, c.Principal.User
	if err := h.Schedules.CreateSchedule(ctx, s); err != nil {
		_, hidden := h.Schedules.GetSchedule(ctx, s.Name, c.App())
		if errors.Is(err, store.ErrExists) && errors.Is(hidden, store.ErrNotFound) {
			return call.Reply{}, call.Problemf(http.StatusConflict, "another app has a schedule %q: choose another name", s.Name)
		}
		return call.Reply{}, call.StoreProblem(err, "schedule", s.Name)
	}
	h.Bus.Changed(bus.Work)
	return call.Reply{
		Status: http.StatusCreated, Body: h.viewSchedule(&s), Location: "/schedules/" + url.PathEscape(s.Name),
	}, nil
}

func (h *Handler) viewSchedule(s *store.Schedule) v1.OperationSchedule {
	v := v1.OperationSchedule{
		Name: s.Name, Cron: s.Cron, TimeZone: s.Zone, Message: s.Message, State: v1.ScheduleActive, App: s.App,
		User: s.User, CreatedAt: s.Created, Missed: s.MissedRuns, NextAt: []time.Time{},
	}
	_ = json.Unmarshal(s.Request, &v.Request) // CreateSchedule has encoded it
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
		EndedAt: call.OptionalTime(r.Ended), RunBy: r.User,
	}
	if r.Count > 1 {
		v.Times = r.Count
	}
	return v
}

// ListSchedules lists the schedules of the caller's app, on one page.
func (h *Handler) ListSchedules(ctx context.Context, c *call.Call) (call.Reply, error) {
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	list, err := h.Schedules.ListSchedules(ctx, c.App())
	if err != nil {
		return call.Reply{}, call.Failure("list the schedules", err)
	}
	c.Audit.Targets = len(list)
	return call.OK(call.PageOf(c, call.Viewed(list,
		func(s store.Schedule) v1.OperationSchedule { return h.viewSchedule(&s) }), nil))
}

// scheduleNamed returns the schedule of a path. The schedule of another app does not exist for the caller.
func (h *Handler) scheduleNamed(ctx context.Context, c *call.Call) (store.Schedule, error) {
	name := c.Subject("name")
	if err := c.Params.Done(); err != nil {
		return store.Schedule{}, err
	}
	s, err := h.Schedules.GetSchedule(ctx, name, c.App())
	return s, call.StoreProblem(err, "schedule", name)
}

// GetSchedule shows a schedule with its last runs and its next times.
func (h *Handler) GetSchedule(ctx context.Context, c *call.Call) (call.Reply, error) {
	s, err := h.scheduleNamed(ctx, c)
	if err != nil {
		return call.Reply{}, err
	}
	return h.showSchedule(ctx, &s)
}

// showSchedule returns the reply with a schedule and its last runs.
func (h *Handler) showSchedule(ctx context.Context, s *store.Schedule) (call.Reply, error) {
	runs, err := h.Schedules.ListRuns(ctx, s.Name, store.KeptRuns)
	if err != nil {
		return call.Reply{}, call.Failure("list the runs of the schedule", err)
	}
	v := h.viewSchedule(s)
	v.Runs = call.Viewed(runs, viewRun)
	if len(v.Runs) > 0 {
		v.Last = &v.Runs[0]
	}
	return call.OK(v)
}

// PauseSchedule skips the runs of a schedule until it is resumed.
func (h *Handler) PauseSchedule(ctx context.Context, c *call.Call) (call.Reply, error) {
	return h.haltSchedule(ctx, c, true)
}

// ResumeSchedule ends the pause of a schedule.
func (h *Handler) ResumeSchedule(ctx context.Context, c *call.Call) (call.Reply, error) {
	return h.haltSchedule(ctx, c, false)
}

func (h *Handler) haltSchedule(ctx context.Context, c *call.Call, pause bool) (call.Reply, error) {
	name := c.Subject("name")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	s, err := h.Schedules.PauseSchedule(ctx, name, c.App(), pause, h.Now())
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "schedule", name)
	}
	h.Bus.Changed(bus.Work)
	return h.showSchedule(ctx, &s)
}

// RemoveSchedule removes a schedule. A run under way goes on.
func (h *Handler) RemoveSchedule(ctx context.Context, c *call.Call) (call.Reply, error) {
	name := c.Subject("name")
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	ended, err := h.Schedules.RemoveSchedule(ctx, name, c.App(), h.Now())
	if err != nil {
		return call.Reply{}, call.StoreProblem(err, "schedule", name)
	}
	if ended { // an event tells it
		h.Bus.Changed(bus.Events)
	}
	return call.Reply{Status: http.StatusNoContent}, nil
}
