package apiv1

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/why"
	"drover/internal/wildcard"
	"drover/internal/words"
)

// moment returns Unix seconds as a time; nil if the value is not positive or is after lastMoment.
func moment(seconds int64) *time.Time {
	if seconds <= 0 || seconds > lastMoment {
		return nil
	}
	t := time.Unix(seconds, 0).UTC()
	return &t
}

func (h *Handler) viewProcess(o store.Observed, host v1.Host) v1.Process {
	v := v1.Process{
		Namespace: o.Process.Namespace, Name: o.Process.Name, Host: host,
		State: o.Status.State, Stale: !host.Online || !h.Fullness.FullSince().IsZero(), Message: o.Status.Message,
		Hosted: o.Status.Hosted, Want: string(o.Status.Want),
		RegisteredAt: moment(o.Status.RegisteredAt), LastStartAt: moment(o.Status.LastStartAt),
		ReportedAt:    moment(o.Status.ReportedAt),
		ProcessDetail: viewDetail(&o.Status),
	}
	if o.Spec != nil {
		spec := processfile.FromSpec(o.Spec)
		v.Spec, v.Revision = &spec, o.Spec.Revision
	}
	if i := o.Status.Instance; o.Status.Running() {
		v.Instance = &v1.Instance{
			PID: i.PID, Cmdline: i.Cmdline, StartedAt: moment(i.StartedAt), CPU: i.CPU, Mem: i.Mem, RSS: i.RSS << 10,
			Threads: i.Threads, Version: i.Version, Health: i.Health, Revision: i.Revision,
		}
	}
	return v
}

func viewDetail(s *process.Status) v1.ProcessDetail {
	v := v1.ProcessDetail{
		Flapping: s.Flapping, Restarts: s.Restarts, LastExit: viewExit(s.LastExit),
		Health: viewAnswer(s.Health), Version: viewAnswer(s.Version), NextRun: instant(s.NextRun),
	}
	if s.Cause.ID != "" || s.Cause.Text != "" {
		cause := viewCause(s.Cause)
		v.Cause = &cause
	}
	v.Further = viewCauses(s.Further)
	for _, d := range s.Config {
		v.Config = append(v.Config, v1.Drift{
			Path: d.Path, Want: d.Want, Have: d.Have, Problem: d.Problem,
			Since: instant(d.Since),
		})
	}
	if u := s.Usage; u != nil {
		v.Usage = &v1.Usage{
			CPU: u.CPU, Mem: u.Mem, RSS: u.RSS, Processes: u.Processes, Files: u.Files, At: instant(u.At),
		}
	}
	for _, r := range s.Runs {
		v.Runs = append(v.Runs, v1.Run{
			StartedAt: instant(r.Started), EndedAt: instant(r.Ended), PID: r.PID,
			Exit: viewExit(r.Exit), Output: r.Output,
		})
	}
	return v
}

func viewAnswer(a *process.Answer) *v1.Answer {
	if a == nil {
		return nil
	}
	return &v1.Answer{
		OK: a.OK, Text: a.Text, At: instant(a.At), Failures: a.Failures, Bad: a.Bad,
		Since: instant(a.Since),
	}
}

// listProcesses lists the processes that the caller may query.
func (h *Handler) listProcesses(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	switch at := p.given("at"); {
	case p.given("group") && !at:
		return h.listGroups(ctx, c)
	case p.fromPicture() && !at:
		return h.listPicture(ctx, c)
	}
	f := store.ObservedFilter{
		Namespace: p.text("namespace"), Name: p.text("name"), Copies: true,
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	if p.given("at") {
		return h.pastPage(ctx, c, f)
	}
	if spec := p.flag("spec"); spec != nil {
		f.Spec = *spec
	}
	return h.processPage(ctx, c, f)
}

// getProcess lists one process, or its copies, on all hosts that know it.
func (h *Handler) getProcess(ctx context.Context, c *call) (reply, error) {
	id := process.ID{Namespace: c.r.PathValue("namespace"), Name: c.r.PathValue("name")}
	c.Audit.Target = edge.Clip(id.String())
	if c.Principal.On(access.OperationOf(process.Query), id.Namespace).Nowhere() {
		return reply{}, forbidden(access.Missing{Operation: access.OperationOf(process.Query), Subject: id.String()})
	}
	answer, err := h.processPage(ctx, c, store.ObservedFilter{Process: id, Copies: true, Spec: true})
	if found, ok := answer.body.(v1.Page[v1.Process]); ok && err == nil && len(found.Items) == 0 &&
		found.NextCursor == "" && !c.params.given("cursor") {
		return reply{}, unknownProcess(id, c.params.processes())
	}
	return answer, err
}

// unknownProcess is the problem of a process that no host has, or none that a choice has.
func unknownProcess(id process.ID, which processChoice) error {
	if which.any() {
		return problemf(http.StatusNotFound, "no host knows a process %q", id.String())
	}
	return problemf(http.StatusNotFound, "no process %q matches process_selector, version and state", id.String())
}

// processChoice selects processes by their own labels, their version and their state. The zero choice selects all.
type processChoice struct {
	labels selector.Selector
	// version is a pattern.
	version string
	states  []string
}

// processes reads the parameters that select processes.
func (p *params) processes() processChoice {
	return processChoice{labels: p.selector("process_selector"), version: p.text("version"), states: p.states()}
}

// states reads the states of processes; nil for all.
func (p *params) states() []string {
	states := p.list("state")
	for _, s := range states {
		if !slices.Contains(process.States(), s) {
			p.fail(invalid("state", "is %.40q: expected %s", s, strings.Join(process.States(), ", ")))
		}
	}
	return states
}

// any reports whether the choice has every process.
func (s *processChoice) any() bool { return s.labels.IsZero() && s.version == "" && len(s.states) == 0 }

// narrow adds to a filter of the database what the choice needs. The caller calls matches for each row.
func (s *processChoice) narrow(f *store.ObservedFilter) {
	f.States, f.Spec = s.states, f.Spec || !s.labels.IsZero()
}

// matches reports whether the choice has a process. Only a running process has a version.
func (s *processChoice) matches(o *store.Observed) bool {
	if s.version != "" &&
		(!o.Status.Running() || o.Status.Instance.Version == "" || !wildcard.Match(s.version, o.Status.Instance.Version)) {
		return false
	}
	if s.labels.IsZero() {
		return true
	}
	if o.Spec == nil {
		return false
	}
	labels := processfile.FromSpec(o.Spec).Labels
	return s.labels.Matches(func(key string) (value string, found bool) {
		value, found = labels[key]
		return value, found
	})
}

// given reports whether a parameter is present.
func (p *params) given(name string) bool { return p.values.Has(name) }

// mostShown is the largest size of a page of processes, in bytes. The page stays in memory while a slow caller reads
// it.
const mostShown = 8 << 20

// processWeight returns the approximate size of a process on a page, in bytes.
func processWeight(v *v1.Process, spec *process.Spec) int {
	n := len(v.Message) + spec.Size()
	for _, d := range v.Config {
		n += len(d.Path) + len(d.Problem)
	}
	for _, r := range v.Runs {
		n += len(r.Output)
	}
	return n
}

// processPage reads a page of processes. For up to searchTime it skips processes that the caller may not see. A page is
// shorter than its limit if that time ends, or if its processes are large.
func (h *Handler) processPage(ctx context.Context, c *call, f store.ObservedFilter) (reply, error) {
	p := &c.params
	hosts, which := p.hosts(), p.processes()
	var after store.ObservedKey
	limit, err := p.page(&after)
	if err != nil {
		return reply{}, err
	}
	f.Agents = h.chosen(hosts)
	shows := f.Spec
	which.narrow(&f)
	r := eventReader{h: h, who: &c.Principal}
	if f.Process == (process.ID{}) {
		f.Within = r.within(f.Namespace)
	}
	var views []v1.Process
	reaches := access.NewReaches(c.Principal)
	more, shown := true, 0
	for begun := time.Now(); more && len(views) < limit && shown < mostShown && time.Since(begun) < searchTime; {
		rows, further, err := h.Listing.ListObserved(ctx, f, after, limit)
		if err != nil {
			return reply{}, failure("list the processes", err)
		}
		more = further
		for i, o := range rows {
			agent, _ := h.Directory.ByKey(o.Agent)
			if !r.at(o.Process).Covers(gate.Host(agent)) || !which.matches(&o) {
				continue
			}
			if !shows {
				o.Spec = nil
			}
			if o.Spec != nil && !reaches.Sets(o.Process.Namespace).Covers(gate.Host(agent)) {
				o.Spec = plan.Hidden(o.Spec)
			}
			views = append(views, h.viewProcess(o, h.viewHost(agent)))
			if shown += processWeight(&views[len(views)-1], o.Spec); len(views) == limit || shown >= mostShown {
				rows, more = rows[:i+1], true
				break
			}
		}
		if len(rows) > 0 {
			last := rows[len(rows)-1]
			after = store.ObservedKey{Agent: last.Agent, Process: last.Process}
		}
	}
	c.Audit.Targets = len(views)
	var last any
	if more {
		last = after
	}
	return reply{status: http.StatusOK, body: pageOf(c, views, last), weight: shown}, nil
}

// forbidden is the problem of a missing right.
func forbidden(m access.Missing) error {
	if m.More > 0 && m.Limit == 0 {
		return problemf(http.StatusForbidden, "not allowed: %s, and %d more", m.What(), m.More)
	}
	return problemf(http.StatusForbidden, "not allowed: %s", m.What())
}

// within adds the name of an object to the fields of a problem.
func within(object string, err error) error {
	p := problemOf(err)
	texts := make([]string, len(p.Fields))
	for i := range p.Fields {
		f := &p.Fields[i]
		f.Field = object + "." + f.Field
		texts[i] = f.Field + ": " + f.Detail
	}
	if len(texts) > 0 {
		p.Detail = strings.Join(texts, "; ")
	}
	return p
}

// countProcesses counts the processes that the caller may query.
func (h *Handler) countProcesses(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	f := store.ObservedFilter{Namespace: p.text("namespace"), Name: p.text("name"), Copies: true}
	if p.given("at") {
		c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
		return h.countPast(ctx, c, f)
	}
	hosts, which := p.hosts(), p.processes()
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(f.Namespace + "/" + f.Name)
	f.Agents = h.chosen(hosts)
	which.narrow(&f)
	n := v1.ProcessCounts{States: map[string]int{}}
	r := eventReader{h: h, who: &c.Principal}
	f.Within = r.within(f.Namespace)
	err := h.eachObserved(ctx, f, func(o *store.Observed) {
		agent, _ := h.Directory.ByKey(o.Agent)
		switch {
		case !r.at(o.Process).Covers(gate.Host(agent)) || !which.matches(o):
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

// eachObserved calls fn for every process of a filter. It reads pages, so that no read of the database takes long.
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

// explain returns findings about the state of processes: the processes with a problem, and with all=true every process
// with a finding.
func (h *Handler) explain(ctx context.Context, c *call) (reply, error) {
	p := &c.params
	q := whyQuery{eventReader: eventReader{h: h, who: &c.Principal}, catalogue: why.Open(), now: h.Now()}
	q.namespace, q.name, q.hosts, q.most = p.text("namespace"), p.text("name"), p.hosts(), p.limit()
	q.which = p.processes()
	if all := p.flag("all"); all != nil {
		q.all = *all
	}
	for _, id := range p.list("cause") {
		if _, known := q.catalogue.Lookup(process.CauseID(id)); !known {
			p.fail(invalid("cause", "is %.40q: there is no such cause", id))
		}
		q.causes = append(q.causes, process.CauseID(id))
	}
	if err := p.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(q.namespace + "/" + q.name)
	if err := q.look(ctx); err != nil {
		return reply{}, err
	}
	c.Audit.Targets = q.total
	return ok(q.view())
}

// whyQuery is one walk over the selected processes.
type whyQuery struct {
	eventReader
	catalogue why.Catalogue
	now       time.Time
	most      int

	namespace, name string
	hosts           hostChoice
	which           processChoice
	causes          []process.CauseID
	all             bool

	waiting map[store.ObservedKey][]why.Operation
	// seen has the keys of the judged agents.
	seen map[string]bool

	found        []v1.Finding
	counts       map[process.CauseID]*v1.CauseCount
	wrong, total int
}

// one returns the selected process, if it is a single one.
func (q *whyQuery) one() (process.ID, bool) {
	id := process.ID{Namespace: q.namespace, Name: q.name}
	return id, id.Namespace != "" && id.Name != "" && !wildcard.IsPattern(q.namespace+q.name)
}

// look judges every process that the caller may query.
func (q *whyQuery) look(ctx context.Context) error {
	q.seen, q.counts = map[string]bool{}, map[process.CauseID]*v1.CauseCount{}
	agents := q.h.chosen(q.hosts)
	if err := q.readWaiting(ctx); err != nil {
		return err
	}
	f := store.ObservedFilter{
		Namespace: q.namespace, Name: q.name, Copies: true, Agents: agents, Within: q.within(q.namespace),
	}
	q.which.narrow(&f)
	err := q.h.eachObserved(ctx, f, func(o *store.Observed) {
		if !q.which.matches(o) {
			return
		}
		agent, joined := q.h.Directory.ByKey(o.Agent)
		q.judge(o.Process, agent, joined, &o.Status, q.waiting[store.ObservedKey{Agent: o.Agent, Process: o.Process}])
		delete(q.waiting, store.ObservedKey{Agent: o.Agent, Process: o.Process})
	})
	if err != nil {
		return err
	}
	if !q.which.any() {
		return nil // what no host has reported has no state, version or labels
	}
	// The remaining operations wait for hosts that have never reported the process.
	for key, operations := range q.waiting {
		if agent, joined := q.h.Directory.ByKey(key.Agent); joined &&
			(agents == nil || slices.Contains(agents, key.Agent)) && q.asksFor(key.Process) {
			q.judge(key.Process, agent, joined, nil, operations)
		}
	}
	q.missing()
	return nil
}

func (q *whyQuery) asksFor(id process.ID) bool {
	return (q.namespace == "" || wildcard.Match(q.namespace, id.Namespace)) &&
		(q.name == "" || wildcard.Match(q.name, id.Name) || wildcard.Match(q.name, baseOf(id.Name)))
}

// baseOf returns the name of the process that a name is a copy of, or the name.
func baseOf(name string) string {
	base, _ := process.CutCopy(name)
	return base
}

// mostWaiting bounds the operations that are read for one query.
const mostWaiting = 10_000

// readWaiting reads the unfinished operations. Unless the query is about one process or has all=true, it skips
// operations younger than why.Patience, which do not explain anything yet.
func (q *whyQuery) readWaiting(ctx context.Context) error {
	var f store.WaitingFilter
	if id, one := q.one(); one {
		f.Process, f.Copies = id, true
	} else if !q.all {
		f.Before = q.now.Add(-why.Patience)
	}
	rows, err := q.h.Listing.ListWaiting(ctx, f, mostWaiting)
	if err != nil {
		return failure("list the operations that wait", err)
	}
	q.waiting = map[store.ObservedKey][]why.Operation{}
	for _, w := range rows {
		key := store.ObservedKey{Agent: w.Agent, Process: w.Process}
		q.waiting[key] = append(q.waiting[key], why.Operation{
			Op: w.Op, Task: w.Task, App: w.App, User: w.User, Asked: w.Created, Begun: w.State >= task.Begun,
			Accepted: w.State >= task.Accepted,
		})
	}
	return nil
}

// missing adds what the caller named and the server does not know: a process that a host does not have, and an unknown
// host.
func (q *whyQuery) missing() {
	id, one := q.one()
	if !one {
		return
	}
	for _, name := range q.hosts.names {
		if wildcard.IsPattern(name) {
			continue
		}
		switch agent, joined := q.h.Directory.LookupID(name); {
		case !joined:
			q.judge(id, store.Agent{ID: name}, false, nil, nil)
		case !q.seen[agent.Key] && q.hosts.selects(&agent):
			q.judge(id, agent, true, nil, nil)
		}
	}
}

// judge adds the findings about one process on one host.
func (q *whyQuery) judge(id process.ID, agent store.Agent, joined bool, status *process.Status,
	operations []why.Operation,
) {
	q.seen[agent.Key] = true
	if !q.at(id).Covers(gate.Host(agent)) {
		return
	}
	host := q.h.viewHost(agent)
	v := q.catalogue.Judge(why.Facts{
		Process: id, Host: host.ID, Now: q.now, Agent: agentFacts(joined, q.h.Directory.Presence(agent.Key, q.now)),
		Status: status, Operations: operations,
	})
	if status != nil {
		q.total++
	}
	if len(q.causes) > 0 && !v.HasAny(q.causes) {
		return
	}
	if v.Wrong {
		q.wrong++
	}
	if v.Cause.ID == "" || !v.Wrong && !q.all {
		return
	}
	q.count(&v)
	view := v1.Finding{
		Namespace: id.Namespace, Name: id.Name, Host: host, Wrong: v.Wrong, Severity: string(v.Severity),
		Cause: viewCause(v.Cause), Further: viewCauses(v.Further),
		Impact: v.Impact,
	}
	if status != nil {
		view.State = status.State
	}
	if v.Then != nil {
		then := viewCause(*v.Then)
		view.Then = &then
	}
	q.found = append(q.found, view)
	if len(q.found) >= 4*q.most { // the rest are only counted
		q.sort()
		q.found = q.found[:q.most]
	}
}

func agentFacts(joined bool, p fleet.Presence) why.Agent {
	return why.Agent{Joined: joined, Away: p.Away, Since: p.Since, Seen: p.LastSeen}
}

// count adds a finding to the counts of its cause. The cause has the severity of its worst finding.
func (q *whyQuery) count(v *why.Finding) {
	n := q.counts[v.Cause.ID]
	if n == nil {
		e, _ := q.catalogue.Lookup(v.Cause.ID)
		n = &v1.CauseCount{
			ID: string(v.Cause.ID), Severity: string(v.Severity), Page: e.Page(), Title: e.Title.In(words.English),
			Meaning: e.Meaning.In(words.English), Remedy: e.Remedy.In(words.English),
		}
		q.counts[v.Cause.ID] = n
	}
	n.Count++
	if v.Severity.Compare(why.Severity(n.Severity)) < 0 {
		n.Severity = string(v.Severity)
	}
}

// worse compares severities, the worse first.
func worse(a, b string) int { return why.Severity(a).Compare(why.Severity(b)) }

// sort puts the worst findings first. Among equals it groups the findings with the same cause and name.
func (q *whyQuery) sort() {
	slices.SortStableFunc(q.found, func(a, b v1.Finding) int {
		return cmp.Or(
			worse(a.Severity, b.Severity), cmp.Compare(a.Namespace, b.Namespace),
			process.CompareNatural(a.Name, b.Name), cmp.Compare(a.Cause.ID, b.Cause.ID),
			cmp.Compare(a.Host.Cloud, b.Host.Cloud), process.CompareNatural(a.Host.ID, b.Host.ID),
		)
	})
}

func (q *whyQuery) view() v1.Why {
	q.sort()
	v := v1.Why{
		Findings: q.found[:min(q.most, len(q.found))], Causes: []v1.CauseCount{}, Wrong: q.wrong, Total: q.total,
	}
	if v.Findings == nil {
		v.Findings = []v1.Finding{}
	}
	for _, n := range q.counts {
		v.Causes = append(v.Causes, *n)
	}
	slices.SortFunc(v.Causes, func(a, b v1.CauseCount) int {
		return cmp.Or(worse(a.Severity, b.Severity), -cmp.Compare(a.Count, b.Count), cmp.Compare(a.ID, b.ID))
	})
	return v
}
