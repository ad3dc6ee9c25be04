package events

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// View shows an event of a host.
func (h *Handler) View(s *store.StoredEvent, host v1.Host) v1.Event {
	host.LastSeen = nil // an event does not change later
	e := &s.Event
	v := v1.Event{
		Cursor: s.Cursor, At: time.UnixMilli(min(e.At, call.LastMoment*1000)).UTC(), ReceivedAt: s.Received, Host: host,
		Namespace: e.Process.Namespace, Name: e.Process.Name, Kind: string(e.Kind), From: e.From, To: e.To,
		Actor: e.Actor,
		EventDetail: v1.EventDetail{
			PID: e.PID, RunSeconds: float64(e.RunTime) / 1000, Output: e.Output, Attempt: e.Attempt,
			Exit: ViewExit(e.Exit), Breach: e.Breach, Revision: e.Revision, Fields: e.Fields,
		},
	}
	if c := e.Cause; c.ID != "" || c.Text != "" {
		cause := ViewCause(c)
		v.Cause = &cause
	}
	return v
}

// ViewCause shows a cause.
func ViewCause(c process.Cause) v1.Cause {
	return v1.Cause{ID: string(c.ID), Text: c.Text, Evidence: c.Evidence, Since: call.MilliTime(c.Since)}
}

// ViewCauses shows causes.
func ViewCauses(all []process.Cause) []v1.Cause {
	var views []v1.Cause
	for _, c := range all {
		views = append(views, ViewCause(c))
	}
	return views
}

// ViewExit shows how a run has ended; nil for a run that goes on.
func ViewExit(x *process.Exit) *v1.Exit {
	if x == nil {
		return nil
	}
	return &v1.Exit{
		Known: x.Known, Code: x.Code, Signal: x.Signal, Core: x.Core, OOM: x.OOM, Peak: x.Peak,
		At: call.MilliTime(x.At),
	}
}

// List lists events, the latest first. If few events match or the caller may not see all, a page may be shorter
// than its limit and still not the last.
func (h *Handler) List(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	f, hosts := filterOf(p)
	f.Until = p.Time("until")
	limit := p.Limit()
	var before store.EventMark
	p.Cursor(&before)
	if err := p.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(strings.Join(f.Namespaces, " ") + "/" + f.Name)
	r := h.Reader(&c.Principal)
	var err error
	if f.Agents, err = r.ChosenEver(ctx, hosts); err != nil {
		return call.Reply{}, err
	}
	if f.Copies, err = h.hasCopies(ctx, f); err != nil {
		return call.Reply{}, err
	}
	last, err := h.Events.LastCursor(ctx)
	if err != nil {
		return call.Reply{}, call.Failure("list the events", err)
	}
	var views []v1.Event
	f.Within = r.eventsWithin(f.Namespaces)
	for begun := time.Now(); ; {
		events, next, err := h.Events.EventsBefore(ctx, before, f, limit-len(views))
		if err != nil {
			return call.Reply{}, call.Failure("list the events", err)
		}
		shown, err := r.views(ctx, events)
		if err != nil {
			return call.Reply{}, err
		}
		views = append(views, shown...)
		before = next
		if before == (store.EventMark{}) || len(views) == limit || time.Since(begun) > call.SearchTime {
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
	body := v1.EventPage{Page: call.PageOf(c, views, end), Last: last}
	return call.Reply{Status: http.StatusOK, Body: body, Weight: weight}, nil
}

// hasCopies reports whether the selected process has copies. If it has none, an index finds its events.
func (h *Handler) hasCopies(ctx context.Context, f store.EventFilter) (bool, error) {
	if len(f.Namespaces) != 1 || f.Name == "" || wildcard.IsPattern(f.Namespaces[0]+f.Name) {
		return true, nil
	}
	copies := store.ObservedFilter{Namespace: f.Namespaces[0], Name: f.Name + "@*"}
	rows, _, err := h.Listing.ListObserved(ctx, copies, store.ObservedKey{}, 1)
	if err != nil {
		return false, call.Failure("list the processes", err)
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

// filterOf reads the parameters that select events, except the end of the list. choice has the hosts that the caller
// chose.
func filterOf(p *call.Params) (f store.EventFilter, choice hosts.Choice) {
	f = store.EventFilter{Namespaces: p.List("namespace"), Name: p.Text("name"), From: p.Time("since")}
	kinds := process.EventKinds()
	for _, k := range p.List("kind") {
		if !slices.Contains(kinds, process.EventKind(k)) {
			p.Fail(call.Invalid("kind", "is %.40q: there is no such kind of event", k))
		}
		f.Kinds = append(f.Kinds, process.EventKind(k))
	}
	return f, hosts.ChoiceOf(p)
}
