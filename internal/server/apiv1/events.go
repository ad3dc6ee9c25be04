package apiv1

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// eventView is one event.
type eventView struct {
	// Cursor is its place in the order in which events arrived.
	Cursor     int64     `json:"cursor"`
	At         time.Time `json:"at"`
	ReceivedAt time.Time `json:"received_at"`
	Host       hostView  `json:"host"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`

	Kind  process.EventKind `json:"kind"`
	From  string            `json:"from,omitempty"`
	To    string            `json:"to,omitempty"`
	Cause *causeView        `json:"cause,omitempty"`
	Actor process.Actor     `json:"actor,omitzero"`

	eventDetail
}

// eventDetail is what only some events have.
type eventDetail struct {
	PID        int             `json:"pid,omitempty"`
	Exit       *exitView       `json:"exit,omitempty"`
	RunSeconds float64         `json:"run_seconds,omitempty"`
	Output     string          `json:"output,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Breach     *process.Breach `json:"breach,omitempty"`
}

type causeView struct {
	ID       process.CauseID `json:"id,omitempty"`
	Text     string          `json:"text,omitempty"`
	Evidence []string        `json:"evidence,omitempty"`
	Since    *time.Time      `json:"since,omitempty"`
}

type exitView struct {
	Known  bool       `json:"known"`
	Code   int        `json:"code"`
	Signal int        `json:"signal,omitempty"`
	Core   bool       `json:"core,omitempty"`
	OOM    bool       `json:"oom,omitempty"`
	At     *time.Time `json:"at,omitempty"`
}

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

func (h *Handler) viewEvent(s *store.StoredEvent, host hostView) eventView {
	host.LastSeen = nil // an event stays as it was
	e := &s.Event
	v := eventView{
		Cursor: s.Cursor, At: time.UnixMilli(min(e.At, lastMoment*1000)).UTC(), ReceivedAt: s.Received, Host: host,
		Namespace: e.Process.Namespace, Name: e.Process.Name, Kind: e.Kind, From: e.From, To: e.To, Actor: e.Actor,
		eventDetail: eventDetail{
			PID: e.PID, RunSeconds: float64(e.RunTime) / 1000, Output: e.Output, Attempt: e.Attempt, Breach: e.Breach,
		},
	}
	if c := e.Cause; c.ID != "" || c.Text != "" {
		cause := viewCause(c)
		v.Cause = &cause
	}
	v.Exit = viewExit(e.Exit)
	return v
}

func viewCause(c process.Cause) causeView {
	return causeView{ID: c.ID, Text: c.Text, Evidence: c.Evidence, Since: instant(c.Since)}
}

func viewCauses(all []process.Cause) []causeView {
	var views []causeView
	for _, c := range all {
		views = append(views, viewCause(c))
	}
	return views
}

func viewExit(x *process.Exit) *exitView {
	if x == nil {
		return nil
	}
	return &exitView{Known: x.Known, Code: x.Code, Signal: x.Signal, Core: x.Core, OOM: x.OOM, At: instant(x.At)}
}

// eventPage is a part of the history.
type eventPage struct {
	page[eventView]
	// Last is the cursor of the last event that had arrived when the page was asked for: a stream that begins after it
	// leaves nothing out.
	Last int64 `json:"last"`
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
	c.audit.Target = clip(strings.Join(f.Namespaces, " ") + "/" + f.Name)
	f.Agents = h.agentsNamed(hosts)
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return reply{}, failure("list the events", err)
	}
	var views []eventView
	r := eventReader{h: h, who: &c.principal}
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
	c.audit.Targets = len(views)
	weight := 0
	for i := range views {
		weight += views[i].weight()
	}
	var end any
	if before != (store.EventMark{}) {
		end = before
	}
	return reply{status: http.StatusOK, body: eventPage{pageOf(c, views, end), last}, weight: weight}, nil
}

// weight is about how much an event takes on a page, in bytes.
func (v *eventView) weight() int {
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

func (r *eventReader) views(events []store.StoredEvent) []eventView {
	var views []eventView
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
