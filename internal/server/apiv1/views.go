package apiv1

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/past"
	"drover/internal/server/plan"
	"drover/internal/server/rollup"
	"drover/internal/server/store"
	"drover/internal/why"
	"drover/internal/wildcard"
)

// Timeline is what the server keeps of the past, beside events.
type Timeline interface {
	store.Timeline
	store.Runs
	ListFormer(ctx context.Context, limit int) ([]store.FormerAgent, error)
}

// pastQuery is a walk over the processes that a caller may query, at a moment.
type pastQuery struct {
	eventReader
	filter store.ObservedFilter
	which  processChoice
	states []string
	hosts  hostChoice
	past   v1.Past
}

// pastProcess is a process at a moment.
type pastProcess struct {
	key   store.ObservedKey
	agent store.Agent
	past.State
}

// moment returns a moment of the past that a parameter names.
func (h *Handler) moment(p *params, name string) time.Time {
	at := p.time(name)
	if at.After(h.Now()) {
		p.fail(invalid(name, "is in the future"))
	}
	return at
}

// atMoment reads the parameters of a list at a moment. It refuses all parameters that need more than the records have.
func (h *Handler) atMoment(c *call, f store.ObservedFilter) *pastQuery {
	p := &c.params
	q := &pastQuery{
		eventReader: eventReader{h: h, who: &c.Principal}, filter: f, which: processChoice{version: p.text("version")},
		states: p.states(), hosts: p.hosts(), past: v1.Past{At: h.moment(p, "at").UTC()},
	}
	for _, name := range []string{"process_selector", "spec"} {
		if p.text(name) != "" {
			p.fail(invalid(name, "the server does not know it for the past: leave it out"))
		}
	}
	q.filter.Spec = false
	q.filter.Within = q.within(f.Namespace)
	return q
}

// page returns the next processes that exist and match, and the place from which to continue.
func (q *pastQuery) page(ctx context.Context, after store.ObservedKey, limit int) (
	found []pastProcess, next store.ObservedKey, more bool, err error,
) {
	if q.filter.Agents, err = q.chosenEver(ctx, q.hosts); err != nil {
		return nil, after, false, err
	}
	was := q.h.heard()
	rows, more, err := q.h.Timeline.StatesAt(ctx, q.filter, q.past.At, after, limit)
	if err != nil {
		return nil, after, false, failure("list the processes of the past", err)
	}
	runs, err := q.h.runsAt(ctx, rows, q.past.At, was)
	if err != nil {
		return nil, after, false, err
	}
	for i := range rows {
		r := &rows[i]
		after = store.ObservedKey{Agent: r.Agent, Process: r.Process}
		agent, err := q.agentOf(ctx, r.Agent)
		if err != nil {
			return nil, after, false, err
		}
		if !q.at(r.Process).Covers(gate.Host(agent.Agent)) {
			continue
		}
		s := stateAt(q.past.At, &agent, r.Before, r.After, runs[r.Agent])
		if !s.Exists || !q.selects(&s) {
			continue
		}
		agent.Key = r.Agent
		q.past.ClockSeconds = worseClock(q.past.ClockSeconds, q.h.Directory.Presence(r.Agent, q.h.Now()).Ahead)
		found = append(found, pastProcess{key: after, agent: agent.Agent, State: s})
	}
	return found, after, more, nil
}

// stateAt is past.At for a process of a host, which may not have joined by then, or may have been removed.
func stateAt(at time.Time, agent *store.FormerAgent, before, later *past.Record, run *past.Run) past.State {
	if before == nil && agent.Created.After(at) || !agent.Removed.IsZero() && !at.Before(agent.Removed) {
		return past.State{}
	}
	return past.At(at.UnixMilli(), before, later, run)
}

// selects reports whether a state matches the filters of states and versions.
func (q *pastQuery) selects(s *past.State) bool {
	if len(q.states) > 0 && !slices.Contains(q.states, wordOf(s)) {
		return false
	}
	return q.which.version == "" || s.Known && s.Shown.Version != "" && wildcard.Match(q.which.version, s.Shown.Version)
}

// worseClock returns the larger of two differences of clocks, in seconds.
func worseClock(seconds float64, ahead time.Duration) float64 {
	if ahead.Abs() >= time.Second && ahead.Abs().Seconds() > max(seconds, -seconds) {
		return ahead.Seconds()
	}
	return seconds
}

// kept fills in since when records are kept.
func (h *Handler) kept(ctx context.Context, p *v1.Past) error {
	oldest, err := h.Timeline.OldestState(ctx)
	if err != nil {
		return failure("read the oldest state", err)
	}
	if !oldest.IsZero() {
		p.KeptSince = &oldest
	}
	return nil
}

// startsApart is how far the start of a run and its first record may be apart, in milliseconds.
const startsApart = 1500

// heard is what the servers have heard of the agents at a moment before rows are read. An agent may tell a restored
// database what it has while they are read: then the rows still are of the time of the copy.
type heard struct {
	at     time.Time
	untold map[string]bool
}

func (h *Handler) heard() heard {
	was := heard{at: h.Now(), untold: map[string]bool{}}
	for _, key := range h.Directory.Untold() {
		was.untold[key] = true
	}
	return was
}

// runsAt returns the runs of the agents of some rows. A run that goes on has lived until the agent's last message, or
// until the rows were read if the agent is online. was was taken before that.
func (h *Handler) runsAt(ctx context.Context, rows []store.RecordedState, at time.Time, was heard) (
	map[string]*past.Run, error,
) {
	var agents []string
	seen := map[string]bool{}
	for i := range rows {
		if key := rows[i].Agent; !seen[key] {
			seen[key] = true
			agents = append(agents, key)
		}
	}
	runs, err := h.Timeline.RunsAt(ctx, agents, at)
	if err != nil {
		return nil, failure("read the runs of agents", err)
	}
	for key, run := range runs {
		p := h.Directory.Presence(key, was.at)
		later := !p.Facts.Started.IsZero() && p.Facts.Started.UnixMilli() > run.Began+startsApart
		if alive := p.Alive(was.at); run.Latest && !later && !alive.IsZero() && !p.Untold && !was.untold[key] {
			run.Last = max(run.Last, alive.UnixMilli())
		}
	}
	return runs, nil
}

// wordOf returns the state as lists show it; empty for a process that does not exist.
func wordOf(s *past.State) string {
	switch {
	case !s.Exists:
		return ""
	case !s.Known:
		return process.StateUnknown
	}
	return s.Shown.State
}

// whyUnknown has the reasons in words.
func whyUnknown(w past.Why) string {
	return map[past.Why]string{
		past.NotKept:  "the server keeps no record of that time",
		past.NotHeard: "no agent ran on the host, or the server has not heard it since",
		past.Starting: "the agent had just started",
		past.Lost:     "records of the host were lost",
	}[w]
}

func viewUnknown(s *past.State) *v1.Unknown {
	if !s.Exists || s.Known {
		return nil
	}
	return &v1.Unknown{Since: instant(s.Since), Why: string(s.Why), Text: whyUnknown(s.Why), Last: s.Shown.State}
}

// viewPast shows a process at a moment.
func (h *Handler) viewPast(p *pastProcess) v1.Process {
	host := h.viewHost(p.agent)
	host.LastSeen = nil
	s := &p.Shown
	v := v1.Process{
		Namespace: p.key.Process.Namespace, Name: p.key.Process.Name, Host: host, State: wordOf(&p.State),
		Stale: !p.Known, Unknown: viewUnknown(&p.State), RegisteredAt: moment(s.RegisteredAt),
	}
	if !p.Known {
		v.Message = v.Unknown.Text
		return v
	}
	v.Message, v.Hosted, v.Want = s.Text, s.Hosted, string(s.Want)
	v.Flapping, v.Restarts, v.Cause = s.Flapping, s.Restarts, causeOf(s)
	if s.PID > 0 {
		v.LastStartAt = moment(s.StartedAt)
		v.Instance = &v1.Instance{PID: s.PID, StartedAt: v.LastStartAt, Version: s.Version, Revision: s.Ran}
	}
	return v
}

// causeOf returns the cause of a recorded state; nil if there is none.
func causeOf(s *process.Shown) *v1.Cause {
	if s.Cause == "" && s.Text == "" {
		return nil
	}
	return &v1.Cause{ID: string(s.Cause), Text: s.Text, Since: instant(s.CauseSince)}
}

// pastPage reads a page of the processes at a moment, as processPage does for the present.
func (h *Handler) pastPage(ctx context.Context, c *call, f store.ObservedFilter) (reply, error) {
	q := h.atMoment(c, f)
	var after store.ObservedKey
	limit, err := c.params.page(&after)
	if err != nil {
		return reply{}, err
	}
	if err := h.kept(ctx, &q.past); err != nil {
		return reply{}, err
	}
	var views []v1.Process
	more, shown, examined := true, 0, limit
	for begun := time.Now(); more && len(views) < limit && shown < mostShown && time.Since(begun) < searchTime; {
		found, next, further, err := q.page(ctx, after, examined)
		if err != nil {
			return reply{}, err
		}
		after, more = next, further
		for i := range found {
			views = append(views, h.viewPast(&found[i]))
			if shown += processWeight(&views[len(views)-1], nil); len(views) == limit && i < len(found)-1 {
				after, more = found[i].key, true
				break
			}
		}
		examined = min(2*examined, maxPage) // what matches is rare
	}
	c.Audit.Targets = len(views)
	var last any
	if more {
		last = after
	}
	body := v1.PastPage{Page: pageOf(c, views, last), Past: q.past}
	return reply{status: http.StatusOK, body: body, weight: shown}, nil
}

// countPast counts the processes at a moment. Those whose state is unknown count as stale.
func (h *Handler) countPast(ctx context.Context, c *call, f store.ObservedFilter) (reply, error) {
	q := h.atMoment(c, f)
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	n := v1.ProcessCounts{States: map[string]int{}}
	var after store.ObservedKey
	for more := true; more; {
		found, next, further, err := q.page(ctx, after, maxPage)
		if err != nil {
			return reply{}, err
		}
		for i := range found {
			if n.Total++; found[i].Known {
				n.States[found[i].Shown.State]++
			} else {
				n.Stale++
			}
		}
		after, more = next, further
	}
	c.Audit.Targets = n.Total
	return ok(n)
}

// Picture is the processes of the fleet in memory.
type Picture interface {
	Each(ctx context.Context, q *rollup.Query, fn func(*rollup.Found)) error
	List(ctx context.Context, q *rollup.Query, order rollup.Order, after rollup.Place, limit int) (
		places []rollup.Place, more bool, total int, err error)
	Groups(ctx context.Context, q *rollup.Query, by string, order func(*v1.ProcessGroup) rollup.Place,
		after *rollup.Place, limit int) (page []v1.ProcessGroup, more bool, total int, err error)
	Overview(ctx context.Context, q *rollup.Query) (v1.Overview, error)
}

// fleetFilter is the filter of a list of processes as the query of a call has it.
type fleetFilter struct {
	rollup.Query
	hosts hostChoice
	// selection is the id of a held selection; empty for all processes.
	selection string
}

// fleet reads the parameters that select processes in the picture.
func (p *params) fleet() fleetFilter {
	f := fleetFilter{hosts: p.hosts(), selection: p.text("selection"), Query: rollup.Query{
		Namespace: p.text("namespace"), Name: p.text("name"), Search: strings.ToLower(p.text("search")),
		Stale: p.flag("stale"), Hosted: p.flag("hosted"),
	}}
	which := p.processes()
	f.Labels, f.Version, f.States = which.labels, which.version, which.states
	catalogue := why.Open()
	for _, id := range p.list("cause") {
		if _, known := catalogue.Lookup(process.CauseID(id)); !known {
			p.fail(invalid("cause", "is %.40q: there is no such cause", id))
		}
		f.Causes = append(f.Causes, process.CauseID(id))
	}
	return f
}

// ready completes the query of a filter for a caller. causes is set if the answer tells causes. Call it after all
// parameters were read.
func (h *Handler) ready(ctx context.Context, who *access.Principal, f *fleetFilter, causes bool) (
	*rollup.Query, error,
) {
	if causes || len(f.Causes) > 0 { // nothing else depends on the open operations
		q := whyQuery{eventReader: eventReader{h: h, who: who}, now: h.Now()}
		if err := q.readWaiting(ctx); err != nil {
			return nil, err
		}
		f.Waiting = q.waiting
	}
	if f.selection != "" {
		s, err := h.held(ctx, who, f.selection)
		if err != nil {
			return nil, err
		}
		f.Only = s.has
	}
	f.Agents, f.AllStale = h.chosen(f.hosts), !h.Fullness.FullSince().IsZero()
	r := eventReader{h: h, who: who}
	f.Sees = func(namespace string, a *store.Agent) bool {
		return r.at(process.ID{Namespace: namespace, Name: "any"}).Covers(gate.Host(*a))
	}
	return &f.Query, nil
}

// fromPicture reports whether a list of processes needs the picture.
func (p *params) fromPicture() bool {
	return slices.ContainsFunc([]string{"sort", "count", "cause", "stale", "hosted", "selection", "search"}, p.given)
}

// namedBy returns the value of a map that a parameter names, by default the one of another name.
func namedBy[T any](p *params, name, otherwise string, of map[string]T) T {
	known := slices.Sorted(maps.Keys(of))
	return of[cmp.Or(p.choice(name, known...), otherwise)]
}

// listPicture lists processes by the picture, in any order. The rows are those of the database.
func (h *Handler) listPicture(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f, order := p.fleet(), namedBy(p, "sort", "process", rollup.Orders())
	counts, spec := p.flag("count"), p.flag("spec")
	var after rollup.Place
	limit, err := p.page(&after)
	if err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	q, err := h.ready(ctx, &c.Principal, &f, false)
	if err != nil {
		return reply{}, err
	}
	places, more, total, err := h.Picture.List(ctx, q, order, after, limit)
	if err != nil {
		return reply{}, failure("list the processes", err)
	}
	views, shown, err := h.viewPlaces(ctx, c, places, spec != nil && *spec)
	if err != nil {
		return reply{}, err
	}
	c.Audit.Targets = len(views)
	var last any
	if more {
		last = places[len(places)-1]
	}
	body := pageOf(c, views, last)
	if counts != nil && *counts {
		body.Total = &total
	}
	return reply{status: http.StatusOK, body: body, weight: shown}, nil
}

// viewPlaces returns the processes of places, in their order. It leaves out processes that are gone meanwhile.
func (h *Handler) viewPlaces(ctx context.Context, c *call, places []rollup.Place, spec bool) (
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
		v := h.viewProcess(o, h.viewHost(agent))
		shown += processWeight(&v, o.Spec)
		found[store.ObservedKey{Agent: o.Agent, Process: o.Process}] = v
	})
	if err != nil {
		return nil, 0, failure("list the processes", err)
	}
	for _, at := range places {
		if v, there := found[at.Key]; there {
			views = append(views, v)
		}
	}
	return views, shown, nil
}

// listGroups lists groups of processes.
func (h *Handler) listGroups(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f, by, order := p.fleet(), p.text("group"), namedBy(p, "sort", "key", rollup.GroupOrders())
	counts := p.flag("count")
	key, isLabel := strings.CutPrefix(by, rollup.ByLabel)
	if !slices.Contains(rollup.Groupings(), by) && (!isLabel || key == "") {
		known := strings.Join(rollup.Groupings(), ", ")
		p.fail(invalid("group", "is %.40q: expected %s or %sKEY", by, known, rollup.ByLabel))
	}
	var after *rollup.Place
	limit, err := p.page(&after)
	if err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	q, err := h.ready(ctx, &c.Principal, &f, true)
	if err != nil {
		return reply{}, err
	}
	groups, more, total, err := h.Picture.Groups(ctx, q, by, order, after, limit)
	if err != nil {
		return reply{}, failure("group the processes", err)
	}
	c.Audit.Targets = len(groups)
	var last any
	if more {
		last = order(&groups[len(groups)-1])
	}
	body := pageOf(c, groups, last)
	if counts != nil && *counts {
		body.Total = &total
	}
	return ok(body)
}

// overview counts the processes that the caller may query, their causes, and the hosts that the caller may read.
func (h *Handler) overview(ctx context.Context, c *call) (reply, error) {
	f := c.params.fleet()
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	count := func() (v v1.Overview, err error) {
		q, err := h.ready(ctx, &c.Principal, &f, true)
		if err != nil {
			return v, err
		}
		if v, err = h.Picture.Overview(ctx, q); err != nil {
			return v, failure("count the processes", err)
		}
		if reach := c.Principal.OnHosts(access.ReadAgents); !reach.Nowhere() {
			v.Hosts = h.countHosts(f.hosts, reach)
		}
		return v, nil
	}
	var v v1.Overview
	var err error
	if h.SharedFor == 0 || f.selection != "" { // a selection is for one caller
		v, err = count()
	} else {
		v, err = h.overviews.get(rightsOf(&c.Principal)+" "+c.params.values.Encode(), h.SharedFor, h.Now, count)
	}
	if err != nil {
		return reply{}, err
	}
	c.Audit.Targets = v.Processes.Total
	return ok(v)
}

// rightsOf is a text that is equal for callers who may see the same.
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

// overviews are the latest overviews by rights and filter, because many people look at the same page.
type overviews struct {
	mu  sync.Mutex
	all map[string]*sharedOverview
}

// mostOverviews is how many overviews are kept.
const mostOverviews = 256

type sharedOverview struct {
	mu   sync.Mutex
	at   time.Time
	took time.Duration
	v    v1.Overview
}

// restPerCount keeps the counting of one overview to a tenth of a processor: a large fleet is counted less often.
const restPerCount = 10

// get returns the overview of a key. It counts again, once for all callers, if the overview is older than the given
// time. Callers must not change the overview.
func (o *overviews) get(key string, rest time.Duration, now func() time.Time, count func() (v1.Overview, error)) (
	v1.Overview, error,
) {
	o.mu.Lock()
	s := o.all[key]
	if s == nil {
		if o.all == nil || len(o.all) >= mostOverviews {
			o.all = map[string]*sharedOverview{}
		}
		s = &sharedOverview{}
		o.all[key] = s
	}
	o.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now().Sub(s.at); age >= 0 && age < max(rest, restPerCount*s.took) {
		return s.v, nil
	}
	began := now()
	v, err := count()
	if err == nil {
		s.at, s.v = now(), v
		s.took = s.at.Sub(began)
	}
	return v, err
}

// countHosts counts chosen hosts within reach.
func (h *Handler) countHosts(hosts hostChoice, reach access.Reach) *v1.HostCounts {
	var n v1.HostCounts
	for a := range h.Directory.After(fleet.Place{}) {
		if !reach.Covers(gate.Host(a)) || !hosts.matches(&a) {
			continue
		}
		p := h.Directory.Presence(a.Key, h.Now())
		if p.Away {
			n.Away++
			continue
		}
		n.Online++
		if seen := p.LastSeen.UTC(); n.OldestReport == nil || seen.Before(*n.OldestReport) {
			n.OldestReport = &seen
		}
	}
	return &n
}
