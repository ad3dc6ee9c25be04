package apiv1

import (
	"context"

	v1 "drover/api/v1"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
)

// countProcesses counts what the caller may query.
func (h *Handler) countProcesses(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.ObservedFilter{Namespace: p.text("namespace"), Name: p.text("name")}
	hosts := p.list("host")
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	f.Agents = h.agentsNamed(hosts)
	n := v1.ProcessCounts{States: map[string]int{}}
	r := eventReader{h: h, who: &c.Principal}
	f.Within = r.within(f.Namespace)
	err := h.eachObserved(ctx, f, func(o *store.Observed) {
		agent, _ := h.Directory.ByKey(o.Agent)
		switch {
		case !r.at(o.Process).Covers(gate.Host(agent)):
			return
		case h.Directory.Presence(o.Agent, h.Now()).Away:
			n.Stale++
		default:
			n.States[o.Status.State]++
		}
		n.Total++
	})
	if err != nil {
		return reply{}, err
	}
	c.Audit.Targets = n.Total
	return ok(n)
}

// eachObserved calls fn for every process of a filter, in pages, so that no read of the database is a long one.
func (h *Handler) eachObserved(ctx context.Context, f store.ObservedFilter, fn func(*store.Observed)) error {
	var after store.ObservedKey
	for {
		rows, more, err := h.Listing.ListObserved(ctx, f, after, maxPage)
		if err != nil {
			return failure("read the processes", err)
		}
		for i := range rows {
			fn(&rows[i])
		}
		if !more || len(rows) == 0 {
			return nil
		}
		last := &rows[len(rows)-1]
		after = store.ObservedKey{Agent: last.Agent, Process: last.Process}
	}
}
