package processes

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/hosts"
	"drover/internal/server/edge"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/server/task"
	"drover/internal/why"
	"drover/internal/wildcard"
	"drover/internal/words"
)

// Why returns findings about the state of processes: the processes with a problem, and with all=true every process
// with a finding.
func (h *Handler) Why(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	q := whyQuery{h: h, Reader: h.events.Reader(&c.Principal), catalogue: why.Open(), now: h.Now()}
	q.namespace, q.name, q.hosts, q.most = p.Text("namespace"), p.Text("name"), hosts.ChoiceOf(p), p.Limit()
	q.which = ChoiceOf(p)
	if all := p.Flag("all"); all != nil {
		q.all = *all
	}
	for _, id := range p.List("cause") {
		if _, known := q.catalogue.Lookup(process.CauseID(id)); !known {
			p.Fail(call.Invalid("cause", "is %.40q: there is no such cause", id))
		}
		q.causes = append(q.causes, process.CauseID(id))
	}
	if err := p.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(q.namespace + "/" + q.name)
	if err := q.judgeAll(ctx); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Targets = q.total
	return call.OK(q.view())
}

// whyQuery is one walk over the selected processes.
type whyQuery struct {
	h *Handler
	events.Reader
	catalogue why.Catalogue
	now       time.Time
	most      int

	namespace, name string
	hosts           hosts.Choice
	which           Choice
	causes          []process.CauseID
	all             bool

	openItems map[store.ObservedKey][]why.Operation
	// seen has the keys of the agents with a judged process.
	seen map[string]bool

	findings     []v1.Finding
	counts       map[process.CauseID]*v1.CauseCount
	wrong, total int
}

// one returns the selected process; false if the query selects more than one process.
func (q *whyQuery) one() (process.ID, bool) {
	id := process.ID{Namespace: q.namespace, Name: q.name}
	return id, id.Namespace != "" && id.Name != "" && !wildcard.IsPattern(q.namespace+q.name)
}

// judgeAll judges every process that the caller may query.
func (q *whyQuery) judgeAll(ctx context.Context) error {
	q.seen, q.counts = map[string]bool{}, map[process.CauseID]*v1.CauseCount{}
	agents := q.h.hosts.KeysOf(q.hosts)
	if err := q.readOpenItems(ctx); err != nil {
		return err
	}
	f := store.ObservedFilter{
		Namespace: q.namespace, Name: q.name, Copies: true, Agents: agents, Within: q.Within(q.namespace),
	}
	q.which.Narrow(&f)
	err := q.h.EachObserved(ctx, f, func(o *store.Observed) {
		if !q.which.Matches(o) {
			return
		}
		agent, joined := q.h.Directory.ByKey(o.Agent)
		q.judge(o.Process, agent, joined, &o.Status, q.openItems[store.ObservedKey{Agent: o.Agent, Process: o.Process}])
		delete(q.openItems, store.ObservedKey{Agent: o.Agent, Process: o.Process})
	})
	if err != nil {
		return err
	}
	if !q.which.Any() {
		return nil // what no host has reported has no state, version or labels
	}
	// The remaining operations wait for hosts that have never reported the process.
	for key, operations := range q.openItems {
		if agent, joined := q.h.Directory.ByKey(key.Agent); joined &&
			(agents == nil || slices.Contains(agents, key.Agent)) && q.asksFor(key.Process) {
			q.judge(key.Process, agent, joined, nil, operations)
		}
	}
	q.addUnknown()
	return nil
}

func (q *whyQuery) asksFor(id process.ID) bool {
	return (q.namespace == "" || wildcard.Match(q.namespace, id.Namespace)) &&
		(q.name == "" || wildcard.Match(q.name, id.Name) || wildcard.Match(q.name, BaseOf(id.Name)))
}

// mostWaiting bounds the operations that are read for one query.
const mostWaiting = 10_000

// readOpenItems reads the unfinished operations. Unless the query is about one process or has all=true, it skips
// operations younger than why.Patience, which do not explain anything yet.
func (q *whyQuery) readOpenItems(ctx context.Context) error {
	var f store.OpenItemFilter
	if id, one := q.one(); one {
		f.Process, f.Copies = id, true
	} else if !q.all {
		f.Before = q.now.Add(-why.Patience)
	}
	rows, err := q.h.Listing.ListOpenItems(ctx, f, mostWaiting)
	if err != nil {
		return call.Failure("list the operations that wait", err)
	}
	q.openItems = map[store.ObservedKey][]why.Operation{}
	for _, w := range rows {
		key := store.ObservedKey{Agent: w.Agent, Process: w.Process}
		q.openItems[key] = append(q.openItems[key], why.Operation{
			Op: w.Op, Task: w.Task, App: w.App, User: w.User, Asked: w.Created, Begun: w.State >= task.Begun,
			Accepted: w.State >= task.Accepted,
		})
	}
	return nil
}

// addUnknown adds findings for names of the caller that the server does not know: a process that a host does not have,
// and an unknown host.
func (q *whyQuery) addUnknown() {
	id, one := q.one()
	if !one {
		return
	}
	for _, name := range q.hosts.Names {
		if wildcard.IsPattern(name) {
			continue
		}
		switch agent, joined := q.h.Directory.LookupID(name); {
		case !joined:
			q.judge(id, store.Agent{ID: name}, false, nil, nil)
		case !q.seen[agent.Key] && q.hosts.Selects(&agent):
			q.judge(id, agent, true, nil, nil)
		}
	}
}

// judge adds the findings about one process on one host.
func (q *whyQuery) judge(id process.ID, agent store.Agent, joined bool, status *process.Status,
	operations []why.Operation,
) {
	q.seen[agent.Key] = true
	if !q.At(id).Covers(gate.Host(agent)) {
		return
	}
	host := q.h.hosts.View(agent)
	v := q.catalogue.Judge(why.Facts{
		Process: id, Host: host.ID, Now: q.now, Agent: hosts.AgentFacts(joined, q.h.Directory.Presence(agent.Key,
			q.now)),
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
		Cause: events.ViewCause(v.Cause), Further: events.ViewCauses(v.Further),
		Impact: v.Impact,
	}
	if status != nil {
		view.State = status.State
	}
	if v.Then != nil {
		then := events.ViewCause(*v.Then)
		view.Then = &then
	}
	q.findings = append(q.findings, view)
	if len(q.findings) >= 4*q.most { // the rest are only counted
		q.sort()
		q.findings = q.findings[:q.most]
	}
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
	slices.SortStableFunc(q.findings, func(a, b v1.Finding) int {
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
		Findings: q.findings[:min(q.most, len(q.findings))], Causes: []v1.CauseCount{}, Wrong: q.wrong, Total: q.total,
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
