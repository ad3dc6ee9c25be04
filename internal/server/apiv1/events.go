package apiv1

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// lastMoment is the last time that JSON can represent, in Unix seconds: the end of the year 9999. Hosts may report
// later times.
const lastMoment = 253402300799

// instant returns Unix milliseconds as a time; nil if the value is not positive or is after lastMoment.
func instant(milliseconds int64) *time.Time {
	if milliseconds <= 0 || milliseconds > lastMoment*1000 {
		return nil
	}
	t := time.UnixMilli(milliseconds).UTC()
	return &t
}

func (h *Handler) viewEvent(s *store.StoredEvent, host v1.Host) v1.Event {
	host.LastSeen = nil // an event does not change later
	e := &s.Event
	v := v1.Event{
		Cursor: s.Cursor, At: time.UnixMilli(min(e.At, lastMoment*1000)).UTC(), ReceivedAt: s.Received, Host: host,
		Namespace: e.Process.Namespace, Name: e.Process.Name, Kind: string(e.Kind), From: e.From, To: e.To,
		Actor: e.Actor,
		EventDetail: v1.EventDetail{
			PID: e.PID, RunSeconds: float64(e.RunTime) / 1000, Output: e.Output, Attempt: e.Attempt,
			Exit: viewExit(e.Exit), Breach: e.Breach, Revision: e.Revision, Fields: e.Fields,
		},
	}
	if c := e.Cause; c.ID != "" || c.Text != "" {
		cause := viewCause(c)
		v.Cause = &cause
	}
	return v
}

func viewCause(c process.Cause) v1.Cause {
	return v1.Cause{ID: string(c.ID), Text: c.Text, Evidence: c.Evidence, Since: instant(c.Since)}
}

func viewCauses(all []process.Cause) []v1.Cause {
	var views []v1.Cause
	for _, c := range all {
		views = append(views, viewCause(c))
	}
	return views
}

func viewExit(x *process.Exit) *v1.Exit {
	if x == nil {
		return nil
	}
	return &v1.Exit{
		Known: x.Known, Code: x.Code, Signal: x.Signal, Core: x.Core, OOM: x.OOM, Peak: x.Peak,
		At: instant(x.At),
	}
}

// searchTime is how long a call searches for matching events before it returns the events it has.
const searchTime = 500 * time.Millisecond

// listEvents lists events, the latest first. If few events match or the caller may not see all, a page may be shorter
// than its limit and still not the last.
func (h *Handler) listEvents(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f, hosts := p.events()
	f.Until = p.time("until")
	limit := p.limit()
	var before store.EventMark
	p.cursor(&before)
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(strings.Join(f.Namespaces, " ") + "/" + f.Name)
	f.Agents = h.chosen(hosts)
	var err error
	if f.Copies, err = h.hasCopies(ctx, f); err != nil {
		return reply{}, err
	}
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return reply{}, failure("list the events", err)
	}
	var views []v1.Event
	r := eventReader{h: h, who: &c.Principal}
	f.Within = r.eventsWithin(f.Namespaces)
	for begun := time.Now(); ; {
		events, next, err := h.Events.EventsBefore(ctx, before, f, limit-len(views))
		if err != nil {
			return reply{}, failure("list the events", err)
		}
		views = append(views, r.views(events)...)
		before = next
		if before == (store.EventMark{}) || len(views) == limit || time.Since(begun) > searchTime {
			break
		}
	}
	c.Audit.Targets = len(views)
	weight := 0
	for i := range views {
		weight += eventWeight(&views[i])
	}
	var end any
	if before != (store.EventMark{}) {
		end = before
	}
	body := v1.EventPage{Page: pageOf(c, views, end), Last: last}
	return reply{status: http.StatusOK, body: body, weight: weight}, nil
}

// hasCopies reports whether the selected process has copies: without them the events of one process are found by an
// index.
func (h *Handler) hasCopies(ctx context.Context, f store.EventFilter) (bool, error) {
	if len(f.Namespaces) != 1 || f.Name == "" || wildcard.IsPattern(f.Namespaces[0]+f.Name) {
		return true, nil
	}
	copies := store.ObservedFilter{Namespace: f.Namespaces[0], Name: f.Name + "@*"}
	rows, _, err := h.Listing.ListObserved(ctx, copies, store.ObservedKey{}, 1)
	if err != nil {
		return false, failure("list the processes", err)
	}
	return len(rows) > 0, nil
}

// eventWeight returns the approximate size of an event on a page, in bytes.
func eventWeight(v *v1.Event) int {
	n := len(v.Output)
	if v.Cause != nil {
		n += len(v.Cause.Text)
		for _, text := range v.Cause.Evidence {
			n += len(text)
		}
	}
	return n
}

// events reads the parameters that select events, except their end. hosts are those that the caller chose.
func (p *params) events() (f store.EventFilter, hosts hostChoice) {
	f = store.EventFilter{Namespaces: p.list("namespace"), Name: p.text("name"), From: p.time("since")}
	kinds := process.EventKinds()
	for _, k := range p.list("kind") {
		if !slices.Contains(kinds, process.EventKind(k)) {
			p.fail(invalid("kind", "is %.40q: there is no such kind of event", k))
		}
		f.Kinds = append(f.Kinds, process.EventKind(k))
	}
	return f, p.hosts()
}

// eventReader shows a caller the events that it may see. It looks up the caller's rights once for each namespace.
type eventReader struct {
	h     *Handler
	who   *access.Principal
	reach map[string]access.Reach
}

func (r *eventReader) views(events []store.StoredEvent) []v1.Event {
	var views []v1.Event
	for i := range events {
		agent, _ := r.h.Directory.ByKey(events[i].Agent)
		if r.at(events[i].Event.Process).Covers(gate.Host(agent)) {
			views = append(views, r.h.viewEvent(&events[i], r.h.viewHost(agent)))
		}
	}
	return views
}

// within returns the namespaces of which the caller may see something, so that the store does not even read hidden
// rows. It is nil if the filter names exactly one namespace.
func (r *eventReader) within(named ...string) []string {
	if len(named) == 1 && named[0] != "" && !wildcard.IsPattern(named[0]) {
		return nil
	}
	return r.who.Namespaces(access.OperationOf(process.Query))
}

// eventsWithin is within for events, because some events are about a host and have no namespace.
func (r *eventReader) eventsWithin(named []string) []string {
	patterns := r.within(named...)
	if patterns != nil && !r.who.OnHosts(access.ReadAgents).Nowhere() {
		patterns = append(patterns, "")
	}
	return patterns
}

// at returns the hosts on which the caller may read a process. An event without a process is about the host.
func (r *eventReader) at(id process.ID) access.Reach {
	if id == (process.ID{}) {
		return r.who.OnHosts(access.ReadAgents)
	}
	at, known := r.reach[id.Namespace]
	if !known {
		at = r.who.On(access.OperationOf(process.Query), id.Namespace)
		if r.reach == nil {
			r.reach = map[string]access.Reach{}
		}
		r.reach[id.Namespace] = at
	}
	return at
}

// listAudit lists the audit log, newest first.
func (h *Handler) listAudit(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.AuditFilter{
		Since: p.time("since"), Until: p.time("until"), App: p.text("app"), User: p.text("user"),
		Action:    p.text("action"),
		RequestID: p.text("request_id"), Allowed: p.flag("allowed"),
	}
	var err error
	if f.Limit, err = p.page(&f.Before); err != nil {
		return reply{}, err
	}
	rows, err := h.History.ListAudit(ctx, f)
	if err != nil {
		return reply{}, failure("list the record of calls", err)
	}
	c.Audit.Targets = len(rows)
	return ok(pageOfRows(c, rows, f.Limit, viewAudit, func(r store.AuditRow) any { return r.Mark() }))
}

func viewAudit(r store.AuditRow) v1.AuditRow {
	return v1.AuditRow{
		At: r.At, App: r.App, User: r.User, Remote: r.Remote, RequestID: r.RequestID, Action: r.Action,
		Target:  r.Target,
		Targets: r.Targets, Allowed: r.Allowed, Code: r.Code, Message: r.Message, Detail: r.Detail,
	}
}
