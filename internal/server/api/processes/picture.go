package processes

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
	"drover/internal/why"
)

// Picture is the processes of the fleet in memory.
type Picture interface {
	Each(ctx context.Context, q *rollup.Query, fn func(*rollup.Found)) error
	List(ctx context.Context, q *rollup.Query, order rollup.Order, after rollup.Place, limit int) (
		places []rollup.Place, more bool, total int, err error)
	Groups(ctx context.Context, q *rollup.Query, by string, order func(*v1.ProcessGroup) rollup.Place,
		after *rollup.Place, limit int) (page []v1.ProcessGroup, more bool, total int, err error)
	Overview(ctx context.Context, q *rollup.Query) (v1.Overview, error)
}

// Filter is the filter of a list of processes as the query of a call has it.
type Filter struct {
	rollup.Query
	hosts hosts.Choice
	// selection is the id of a selection of the caller; empty for all processes.
	selection string
}

// FilterOf reads the parameters that select processes in the picture.
func FilterOf(p *call.Params) Filter {
	f := Filter{hosts: hosts.ChoiceOf(p), selection: p.Text("selection"), Query: rollup.Query{
		Namespace: p.Text("namespace"), Name: p.Text("name"), Search: strings.ToLower(p.Text("search")),
		Stale: p.Flag("stale"), Hosted: p.Flag("hosted"),
	}}
	which := ChoiceOf(p)
	f.Labels, f.Version, f.States = which.Labels, which.version, which.states
	catalogue := why.Open()
	for _, id := range p.List("cause") {
		if _, known := catalogue.Lookup(process.CauseID(id)); !known {
			p.Fail(call.Invalid("cause", "is %.40q: there is no such cause", id))
		}
		f.Causes = append(f.Causes, process.CauseID(id))
	}
	return f
}

// Ready completes the query of a filter for a caller. causes is set if the answer tells causes. Call it after all
// parameters were read.
func (h *Handler) Ready(ctx context.Context, who *access.Principal, f *Filter, causes bool) (
	*rollup.Query, error,
) {
	if causes || len(f.Causes) > 0 { // nothing else depends on the open operations
		q := whyQuery{h: h, Reader: h.events.Reader(who), now: h.Now()}
		if err := q.readOpenItems(ctx); err != nil {
			return nil, err
		}
		f.Waiting = q.openItems
	}
	if f.selection != "" {
		s, err := h.HeldSelection(ctx, who, f.selection)
		if err != nil {
			return nil, err
		}
		f.Only = s.Has
	}
	f.Agents, f.AllStale = h.hosts.KeysOf(f.hosts), !h.Fullness.FullSince().IsZero()
	r := h.events.Reader(who)
	f.Sees = func(namespace string, a *store.Agent) bool {
		return r.At(process.ID{Namespace: namespace, Name: "any"}).Covers(gate.Host(*a))
	}
	return &f.Query, nil
}

// fromPicture reports whether a list of processes needs the picture.
func fromPicture(p *call.Params) bool {
	return slices.ContainsFunc([]string{"sort", "count", "cause", "stale", "hosted", "selection", "search"}, p.Given)
}

// namedBy returns the value of a map whose key is the value of a parameter. Without the parameter the key is otherwise.
func namedBy[T any](p *call.Params, name, otherwise string, of map[string]T) T {
	known := slices.Sorted(maps.Keys(of))
	return of[cmp.Or(p.Choice(name, known...), otherwise)]
}

// listPicture lists processes in any order that the picture offers. It reads their rows from the database.
func (h *Handler) listPicture(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	f, order := FilterOf(p), namedBy(p, "sort", "process", rollup.Orders())
	counts, spec := p.Flag("count"), p.Flag("spec")
	var after rollup.Place
	limit, err := p.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	q, err := h.Ready(ctx, &c.Principal, &f, false)
	if err != nil {
		return call.Reply{}, err
	}
	places, more, total, err := h.Picture.List(ctx, q, order, after, limit)
	if err != nil {
		return call.Reply{}, call.Failure("list the processes", err)
	}
	views, shown, err := h.viewPlaces(ctx, c, places, spec != nil && *spec)
	if err != nil {
		return call.Reply{}, err
	}
	c.Audit.Targets = len(views)
	var last any
	if more {
		last = places[len(places)-1]
	}
	body := call.PageOf(c, views, last)
	if counts != nil && *counts {
		body.Total = &total
	}
	return call.Reply{Status: http.StatusOK, Body: body, Weight: shown}, nil
}

// viewPlaces returns the processes of places, in the order of the places. It leaves out processes that were removed
// meanwhile.
func (h *Handler) viewPlaces(ctx context.Context, c *call.Call, places []rollup.Place, spec bool) (
	views []v1.Process, shown int, err error,
) {
	keys := make([]store.ObservedKey, len(places))
	for i, at := range places {
		keys[i] = at.Key
	}
	found := map[store.ObservedKey]v1.Process{}
	reaches := access.NewReaches(c.Principal)
	err = h.Listing.ObservedAt(ctx, keys, spec, func(o store.Observed) {
		agent, _ := h.Directory.ByKey(o.Agent)
		if o.Spec != nil && !reaches.Sets(o.Process.Namespace).Covers(gate.Host(agent)) {
			o.Spec = plan.Hidden(o.Spec)
		}
		v := h.viewProcess(o, h.hosts.View(agent))
		shown += processWeight(&v, o.Spec)
		found[store.ObservedKey{Agent: o.Agent, Process: o.Process}] = v
	})
	if err != nil {
		return nil, 0, call.Failure("list the processes", err)
	}
	for _, at := range places {
		if v, there := found[at.Key]; there {
			views = append(views, v)
		}
	}
	return views, shown, nil
}

// listGroups lists groups of processes.
func (h *Handler) listGroups(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	f, by, order := FilterOf(p), p.Text("group"), namedBy(p, "sort", "key", rollup.GroupOrders())
	counts := p.Flag("count")
	key, isLabel := strings.CutPrefix(by, rollup.ByLabel)
	if !slices.Contains(rollup.Groupings(), by) && (!isLabel || key == "") {
		known := strings.Join(rollup.Groupings(), ", ")
		p.Fail(call.Invalid("group", "is %.40q: expected %s or %sKEY", by, known, rollup.ByLabel))
	}
	var after *rollup.Place
	limit, err := p.Page(&after)
	if err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	q, err := h.Ready(ctx, &c.Principal, &f, true)
	if err != nil {
		return call.Reply{}, err
	}
	groups, more, total, err := h.Picture.Groups(ctx, q, by, order, after, limit)
	if err != nil {
		return call.Reply{}, call.Failure("group the processes", err)
	}
	c.Audit.Targets = len(groups)
	var last any
	if more {
		last = order(&groups[len(groups)-1])
	}
	body := call.PageOf(c, groups, last)
	if counts != nil && *counts {
		body.Total = &total
	}
	return call.OK(body)
}

// rightsOf returns a text that is equal for callers with equal rights to read.
func rightsOf(p *access.Principal) string {
	if p.Admin {
		return "admin"
	}
	texts := make([]string, len(p.Grants))
	for i, g := range p.Grants {
		texts[i] = strconv.Quote(g.String())
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}
