package rollup

import (
	"context"
	"slices"
	"strings"
	"time"

	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/why"
	"drover/internal/wildcard"
)

// Directory knows the agents.
type Directory interface {
	ByKey(key string) (store.Agent, bool)
	Presence(key string, now time.Time) fleet.Presence
}

// Query selects processes. The zero value of a field selects all.
type Query struct {
	// Namespace, Name and Version are patterns. Name also selects the copies of a process. Only a running process has
	// a version.
	Namespace, Name, Version string
	// Search is a text in lower case. It selects the processes with this text in NAMESPACE/NAME, or in the address or
	// an id of their host, in any case.
	Search string
	// Agents are keys; nil selects all, and an empty list none.
	Agents []string
	States []string
	// Causes selects processes that are not as they should be and have one of these causes, the main or a further one.
	Causes []process.CauseID
	// Stale tells whether the state may be out of date, because the host is away. Hosted tells whether drover watches
	// the process.
	Stale, Hosted *bool
	Labels        selector.Selector
	// AllStale tells that every state may be out of date.
	AllStale bool
	// Sees reports whether the caller may see the processes of a namespace on a host. It is called once for each
	// namespace of a host.
	Sees func(namespace string, a *store.Agent) bool
	// Only, unless it is nil, reports whether the query is about a process.
	Only func(f *Found) bool
	// Waiting are the open operations that explain a state.
	Waiting map[store.ObservedKey][]why.Operation
	// Now tells that the answer must contain everything that was stored before the call.
	Now bool
}

// Found is a process that a query has found. It is valid during one call only.
type Found struct {
	*Row
	// Agent is zero if the agent is not in the register any more; Key is its key in any case.
	Agent *store.Agent
	Key   string
	// Stale tells that the state may be out of date.
	Stale bool

	walk    *walk
	judged  bool
	finding why.Finding
}

// Finding explains the state, without texts; its zero value means that there is nothing to explain.
func (f *Found) Finding() *why.Finding {
	if !f.judged {
		f.judged, f.finding = true, f.walk.judge(f)
	}
	return &f.finding
}

// Place is the place of the process in lists.
func (f *Found) Place() store.ObservedKey { return store.ObservedKey{Agent: f.Key, Process: f.Process} }

// Each calls fn for every process that a query selects, unordered.
func (p *Rollup) Each(ctx context.Context, q *Query, fn func(*Found)) error {
	rows, err := p.agents(ctx, q.Now)
	if err != nil {
		return err
	}
	w := walk{
		Query: q, p: p, now: p.Now(), catalogue: why.Open(), names: map[process.ID]bool{}, sees: map[string]bool{},
		hits: map[process.ID]bool{}, fn: fn,
	}
	if q.Agents != nil {
		keys := slices.Clone(q.Agents)
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			w.agent(key, rows[key])
		}
		return nil
	}
	for key, of := range rows {
		w.agent(key, of)
	}
	return nil
}

// walk is one walk over the picture.
type walk struct {
	*Query
	p         *Rollup
	now       time.Time
	catalogue why.Catalogue
	// names remembers which names the query selects.
	names map[process.ID]bool
	// hits remembers which names hold the text of Search, and hostHit whether a name of the present agent does.
	hits    map[process.ID]bool
	hostHit bool
	// sees remembers which namespaces the caller sees on the present agent.
	sees     map[string]bool
	of       store.Agent
	joined   bool
	presence fleet.Presence
	found    Found
	// status is that of the process which is judged: a new one for each would take longer than the judgement.
	status process.Status
	fn     func(*Found)
}

// agent calls fn for the selected processes of an agent.
func (w *walk) agent(key string, rows []Row) {
	if len(rows) == 0 {
		return
	}
	w.of, w.joined = w.p.Directory.ByKey(key)
	agent := &w.of
	clear(w.sees)
	w.presence = w.p.Directory.Presence(key, w.now)
	stale := w.presence.Away || w.AllStale
	if w.Stale != nil && *w.Stale != stale {
		return
	}
	w.hostHit = w.Search == "" || w.holds(fleet.Address(*agent)) || w.holds(agent.ID) || w.holds(agent.Assigned)
	for i := range rows {
		r := &rows[i]
		if !w.selects(r) || !w.hostHit && !w.hit(r.Process) {
			continue
		}
		may, known := w.sees[r.Process.Namespace]
		if !known {
			may = w.Sees(r.Process.Namespace, &w.of)
			w.sees[r.Process.Namespace] = may
		}
		if !may {
			continue
		}
		w.found = Found{Row: r, Agent: agent, Key: key, Stale: stale, walk: w}
		f := &w.found
		if w.Only != nil && !w.Only(f) {
			continue
		}
		if len(w.Causes) == 0 || f.Finding().Wrong && f.Finding().HasAny(w.Causes) {
			w.fn(f)
		}
	}
}

// judge returns the finding of a process of the present agent.
func (w *walk) judge(f *Found) why.Finding {
	var waiting []why.Operation
	if len(w.Waiting) > 0 {
		waiting = w.Waiting[f.Place()]
	}
	if f.remarkable == nil && w.joined && !w.presence.Away && len(waiting) == 0 {
		return why.Finding{}
	}
	return w.catalogue.Judge(why.Facts{
		Process: f.Process, Now: w.now, Status: f.status(&w.status), Operations: waiting, Brief: true,
		Agent: why.Agent{
			Joined: w.joined, Away: w.presence.Away, Since: w.presence.Since, Seen: w.presence.LastSeen,
		},
	})
}

// selects reports whether a query selects a row, as far as the row alone tells.
func (w *walk) selects(r *Row) bool {
	return (w.Hosted == nil || *w.Hosted == r.Hosted) && (len(w.States) == 0 || slices.Contains(w.States, r.State)) &&
		(w.Version == "" || r.Version != "" && wildcard.Match(w.Version, r.Version)) && w.named(r.Process) &&
		(w.Labels.IsZero() || w.Labels.Matches(func(key string) (value string, found bool) {
			value, found = r.Labels[key]
			return value, found
		}))
}

// holds reports whether a text holds that of Search.
func (w *walk) holds(text string) bool { return strings.Contains(strings.ToLower(text), w.Search) }

// hit reports whether the name of a process holds the text of Search.
func (w *walk) hit(id process.ID) bool {
	is, known := w.hits[id]
	if !known {
		is = w.holds(id.String())
		w.hits[id] = is
	}
	return is
}

// named reports whether a query selects the name of a process.
func (w *walk) named(id process.ID) bool {
	if w.Namespace == "" && w.Name == "" {
		return true
	}
	is, known := w.names[id]
	if !known {
		base, _ := process.CutCopy(id.Name)
		is = (w.Namespace == "" || wildcard.Match(w.Namespace, id.Namespace)) &&
			(w.Name == "" || wildcard.Match(w.Name, id.Name) || wildcard.Match(w.Name, base))
		w.names[id] = is
	}
	return is
}
