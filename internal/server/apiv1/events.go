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

// lastMoment is the last one that can be written, in Unix seconds: the end of the year 9999. Hosts may tell of later
// ones.
const lastMoment = 253402300799

// instant returns Unix milliseconds as a time; 0 is never, and so is what cannot be written.
func instant(milliseconds int64) *time.Time {
	if milliseconds <= 0 || milliseconds > lastMoment*1000 {
		return nil
	}
	t := time.UnixMilli(milliseconds).UTC()
	return &t
}

func (h *Handler) viewEvent(s *store.StoredEvent, host v1.Host) v1.Event {
	host.LastSeen = nil // an event stays as it was
	e := &s.Event
	v := v1.Event{
		Cursor: s.Cursor, At: time.UnixMilli(min(e.At, lastMoment*1000)).UTC(), ReceivedAt: s.Received, Host: host,
		Namespace: e.Process.Namespace, Name: e.Process.Name, Kind: string(e.Kind), From: e.From, To: e.To,
		Actor: e.Actor,
		EventDetail: v1.EventDetail{
			PID: e.PID, RunSeconds: float64(e.RunTime) / 1000, Output: e.Output, Attempt: e.Attempt,
			Exit: viewExit(e.Exit), Breach: e.Breach,
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
	return &v1.Exit{Known: x.Known, Code: x.Code, Signal: x.Signal, Core: x.Core, OOM: x.OOM, At: instant(x.At)}
}

// searchTime is how long a call looks for the events that match before it hands out what it has.
const searchTime = 500 * time.Millisecond

// listEvents lists what has happened, the latest first. A page may be shorter than its limit, and still not the last,
// where few events match or the caller may not see all.
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
	f.Agents = h.agentsNamed(hosts)
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

// eventWeight is about how much an event takes on a page, in bytes.
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

// events reads the parameters that choose events, but for their end: hosts are as the caller names them.
func (p *params) events() (f store.EventFilter, hosts []string) {
	f = store.EventFilter{Namespaces: p.list("namespace"), Name: p.text("name"), From: p.time("since")}
	kinds := process.EventKinds()
	for _, k := range p.list("kind") {
		if !slices.Contains(kinds, process.EventKind(k)) {
			p.fail(invalid("kind", "is %.40q: there is no such kind of event", k))
		}
		f.Kinds = append(f.Kinds, process.EventKind(k))
	}
	return f, p.list("host")
}

// eventReader shows events to a caller, as far as it may see them. What the caller may do is found out once for each
// namespace.
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

// within are the namespaces that the caller may see something of, for a filter that names others: what is hidden is
// then not even read. It is nil where there are none others.
func (r *eventReader) within(named ...string) []string {
	if len(named) == 1 && named[0] != "" && !wildcard.IsPattern(named[0]) {
		return nil
	}
	return r.who.Namespaces(access.OperationOf(process.Query))
}

// eventsWithin is within for events, some of which are about a host and in no namespace.
func (r *eventReader) eventsWithin(named []string) []string {
	patterns := r.within(named...)
	if patterns != nil && !r.who.OnHosts(access.ReadAgents).Nowhere() {
		patterns = append(patterns, "")
	}
	return patterns
}

// at is where the caller may read of a process. An event of no process is about the host.
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
