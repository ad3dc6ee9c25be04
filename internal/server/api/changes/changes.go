package changes

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/files"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/operations"
	"drover/internal/server/api/processes"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/past"
	"drover/internal/server/rollout"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// latest returns the newest entries of a list, as many as the limit allows. The list is newest first, and the result
// oldest first.
func latest[T any](q *changesQuery, name string, list []T) []T {
	if len(list) > q.limit {
		q.incomplete(name)
		list = list[:q.limit]
	}
	slices.Reverse(list)
	return list
}

// changesQuery is the comparison of two moments for a caller.
type changesQuery struct {
	h *Handler
	events.Reader
	c        *call.Call
	from, to time.Time
	// patterns are patterns of NAMESPACE/NAME; empty matches all. agents are the keys of the chosen hosts; nil means
	// all hosts.
	patterns []string
	agents   map[string]bool
	// rolled are the rollouts that began after from. The list of tasks leaves out the tasks of these rollouts.
	rolled map[string]bool
	filter store.ObservedFilter
	limit  int

	groups map[v1.ChangeGroup]*changeGroup
	out    v1.Changes
}

// changeGroup is a group under construction.
type changeGroup struct {
	count int
	hosts map[string]bool
	rows  []v1.ProcessChange
}

// mostGroups bounds the groups, because causes come from agents.
const mostGroups = 1000

// comparedAtOnce is the number of processes that one read compares. mostExamined is the largest number of other rows
// that one answer reads.
const (
	comparedAtOnce = 2000
	mostExamined   = 5000
)

// List compares two moments.
func (h *Handler) List(ctx context.Context, c *call.Call) (call.Reply, error) {
	p := &c.Params
	q := changesQuery{
		h: h, Reader: h.events.Reader(&c.Principal), c: c,
		from: h.processes.Moment(p, "from"), to: h.processes.Moment(p, "to"),
		patterns: p.List("process"), limit: p.Limit(), groups: map[v1.ChangeGroup]*changeGroup{}, rolled: map[string]bool{},
		filter: store.ObservedFilter{Copies: true},
	}
	choice := hosts.ChoiceOf(p)
	if q.to.IsZero() {
		q.to = h.Now()
	}
	switch {
	case !p.Given("from"):
		p.Fail(call.Invalid("from", "is missing: expected a time such as 2026-11-20T10:30:00Z"))
	case !q.from.Before(q.to):
		p.Fail(call.Invalid("from", "is not before the end"))
	}
	for _, n := range q.patterns {
		if namespace, name, found := strings.Cut(n, "/"); !found || namespace == "" || name == "" {
			p.Fail(call.Invalid("process", "is %.40q: expected NAMESPACE/NAME", n))
		}
	}
	if err := p.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(strings.Join(q.patterns, " "))
	if len(q.patterns) == 1 {
		q.filter.Namespace, q.filter.Name, _ = strings.Cut(q.patterns[0], "/")
	}
	if err := q.ReadFormer(ctx); err != nil {
		return call.Reply{}, err
	}
	var err error
	if q.filter.Agents, err = q.ChosenEver(ctx, choice); err != nil {
		return call.Reply{}, err
	}
	if q.filter.Agents != nil {
		q.agents = map[string]bool{}
		for _, key := range q.filter.Agents {
			q.agents[key] = true
		}
	}
	q.filter.Within = q.Within(q.filter.Namespace)
	q.out = v1.Changes{
		From: q.from.UTC(), Past: v1.Past{At: q.to.UTC()}, OperationsKeptSince: h.Now().Add(-store.TasksKept).UTC(),
	}
	for _, step := range []func(context.Context) error{
		q.compare, q.revisions, q.rollouts, q.operations, q.hosts,
	} {
		if err := step(ctx); err != nil {
			return call.Reply{}, err
		}
	}
	if err := h.processes.FillKeptSince(ctx, &q.out.Past); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Targets = q.out.Changed
	return call.OK(q.out)
}

// asks reports whether the caller asks for a process.
func (q *changesQuery) asks(id process.ID) bool {
	return len(q.patterns) == 0 || slices.ContainsFunc(q.patterns, func(n string) bool {
		namespace, name, _ := strings.Cut(n, "/")
		return wildcard.Match(namespace, id.Namespace) &&
			(wildcard.Match(name, id.Name) || wildcard.Match(name, processes.BaseOf(id.Name)))
	})
}

// compare walks the processes that have changed.
func (q *changesQuery) compare(ctx context.Context) error {
	for after := (store.ObservedKey{}); ; {
		was := q.h.processes.SnapshotAgents()
		rows, next, err := q.h.Timeline.StatesBetween(ctx, q.filter, q.from, q.to, after, comparedAtOnce)
		if err != nil {
			return call.Failure("compare the processes", err)
		}
		first, err := q.h.processes.RunsAt(ctx, rows, q.from, was)
		if err != nil {
			return err
		}
		second, err := q.h.processes.RunsAt(ctx, rows, q.to, was)
		if err != nil {
			return err
		}
		for i := range rows {
			r := &rows[i]
			agent := q.Ever(r.Agent)
			if q.asks(r.Process) && q.At(r.Process).Covers(gate.Host(agent.Agent)) {
				q.add(r, agent, processes.StateAt(q.from, &agent, r.Before, r.After, first[r.Agent]),
					processes.StateAt(q.to, &agent, r.After, nil, second[r.Agent]))
			}
		}
		if after = next; next == (store.ObservedKey{}) {
			q.group()
			return nil
		}
	}
}

// add adds a process to its group, unless its state is the same at both moments.
func (q *changesQuery) add(r *store.RecordedState, agent store.FormerAgent, a, b past.State) {
	key := v1.ChangeGroup{From: processes.WordOf(&a), To: processes.WordOf(&b)}
	if key.From == key.To && (!a.Exists || !a.Known || a.Shown.Same(b.Shown)) {
		return
	}
	q.out.Changed++
	ahead := q.h.Directory.Presence(r.Agent, q.h.Now()).Ahead
	q.out.Past.ClockSeconds = processes.WorseClock(q.out.Past.ClockSeconds, ahead)
	row := v1.ProcessChange{
		Namespace: r.Process.Namespace, Name: r.Process.Name, From: key.From, To: key.To,
		Unknown: processes.ViewUnknown(&b),
	}
	if row.Unknown == nil {
		row.Unknown = processes.ViewUnknown(&a)
	}
	if row.Unknown != nil {
		q.out.Unknown++
	}
	if a.Known {
		row.FromPID, row.FromVersion = a.Shown.PID, a.Shown.Version
	}
	if b.Known {
		row.ToPID, row.ToVersion = b.Shown.PID, b.Shown.Version
		row.Restarts, row.Cause = b.Shown.Restarts, processes.CauseOf(&b.Shown)
		key.Cause = string(b.Shown.Cause)
	}
	row.At = call.MilliTime(r.After.At)
	switch s := r.After.Shown.Since; {
	case !b.Exists && q.between(agent.Removed):
		row.At = &agent.Removed
	case s > q.from.UnixMilli() && key.From != key.To:
		row.At = call.MilliTime(s)
	}
	g := q.groups[key]
	if g == nil && len(q.groups) >= mostGroups {
		key.Cause = ""
		g = q.groups[key]
	}
	if g == nil {
		g = &changeGroup{hosts: map[string]bool{}}
		q.groups[key] = g
	}
	g.count++
	g.hosts[r.Agent] = true
	if len(g.rows) < q.limit {
		agent.Key = r.Agent
		row.Host = q.h.hosts.View(agent.Agent)
		row.Host.LastSeen = nil
		g.rows = append(g.rows, row)
	}
}

// urgency returns the place of a state in the order of groups: states that need attention come first.
func urgency(state string) int {
	order := []string{
		process.StateGivenUp, process.StateFlapping, process.StateBackoff, process.StateUnhealthy,
		process.StateNotReady, process.StateUnknown, process.StateStopping, process.StateStarting, process.StateStopped,
	}
	if i := slices.Index(order, state); i >= 0 {
		return i
	}
	return len(order)
}

// group puts the groups in order.
func (q *changesQuery) group() {
	q.out.Groups, q.out.Processes = []v1.ChangeGroup{}, []v1.ProcessChange{}
	for key, g := range q.groups {
		key.Count, key.Hosts = g.count, len(g.hosts)
		q.out.Groups = append(q.out.Groups, key)
	}
	slices.SortFunc(q.out.Groups, func(a, b v1.ChangeGroup) int {
		return cmp.Or(cmp.Compare(urgency(a.To), urgency(b.To)), -cmp.Compare(a.Count, b.Count),
			cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From), cmp.Compare(a.Cause, b.Cause))
	})
	for _, key := range q.out.Groups {
		key.Count, key.Hosts = 0, 0
		q.out.Processes = append(q.out.Processes, q.groups[key].rows...)
	}
	if len(q.out.Processes) > q.limit {
		q.out.Processes = q.out.Processes[:q.limit]
	}
	if len(q.out.Processes) < q.out.Changed {
		q.incomplete("processes")
	}
	q.groups = nil
}

func (q *changesQuery) incomplete(list string) {
	if !slices.Contains(q.out.Incomplete, list) {
		q.out.Incomplete = append(q.out.Incomplete, list)
	}
}

// between reports whether a time is between the moments.
func (q *changesQuery) between(t time.Time) bool { return t.After(q.from) && !t.After(q.to) }

// revisions lists the revisions of specs that the caller may see: the latest ones, in the order of time. The batches of
// a rollout are one entry, under the number of the last batch.
func (q *changesQuery) revisions(ctx context.Context) error {
	q.out.Revisions = []v1.NamespaceRevision{}
	found, err := q.h.Timeline.RevisedBetween(ctx, q.from, q.to, mostExamined)
	if err != nil {
		return call.Failure("list the revisions", err)
	}
	if len(found) == mostExamined {
		q.incomplete("revisions")
	}
	places := map[string]int{} // of the rollouts, by namespace
	for _, r := range found {
		release := store.RolloutOf(r.Task)
		place, more := places[r.Namespace+"/"+release]
		if more = more && release != ""; !more && len(q.out.Revisions) == q.limit {
			q.incomplete("revisions")
			continue
		}
		reach := q.Who.On(access.OperationOf(process.Query), r.Namespace)
		if reach.Nowhere() {
			continue
		}
		f := store.RevisionFilter{Namespace: r.Namespace, Before: r.Number + 1, Sees: func(key string) bool {
			return (q.agents == nil || q.agents[key]) && reach.Covers(gate.Host(q.Ever(key).Agent))
		}}
		rows, _, err := q.h.Revisions.ListRevisions(ctx, f, 1)
		if err != nil {
			return call.Failure("list the revisions", err)
		}
		if len(rows) == 0 || rows[0].Number != r.Number {
			continue
		}
		v := v1.NamespaceRevision{Namespace: r.Namespace, Revision: files.ViewRevision(rows[0])}
		v.Changes = slices.DeleteFunc(v.Changes, func(c v1.RevisionChange) bool {
			return !q.asks(process.ID{Namespace: r.Namespace, Name: c.Process})
		})
		switch {
		case len(v.Changes) == 0:
		case more:
			addChanges(&q.out.Revisions[place].Revision, v.Changes)
		default:
			places[r.Namespace+"/"+release] = len(q.out.Revisions)
			q.out.Revisions = append(q.out.Revisions, v)
		}
	}
	slices.Reverse(q.out.Revisions)
	return nil
}

// nowhere reports whether the caller has chosen hosts and none of them exists.
func (q *changesQuery) nowhere() bool { return q.agents != nil && len(q.agents) == 0 }

// reaches reports whether a rollout has one of the chosen hosts.
func (q *changesQuery) reaches(ctx context.Context, r *store.Rollout) (bool, error) {
	if q.agents == nil {
		return true, nil
	}
	full, err := q.h.Rollouts.GetRollout(ctx, r.ID, "")
	if err != nil {
		return false, call.Failure("read the rollout", err)
	}
	return slices.ContainsFunc(full.Hosts, func(x rollout.Host) bool { return q.agents[x.Agent] }), nil
}

// rollouts lists the rollouts that the caller may see.
func (q *changesQuery) rollouts(ctx context.Context) error {
	q.out.Rollouts = []v1.Rollout{}
	if q.nowhere() {
		return nil
	}
	after, s := int64(0), q.h.operations.NewSeer(q.c)
	for examined := 0; ; {
		list, err := q.h.Rollouts.ListRollouts(ctx, store.RolloutFilter{Sight: q.c.Sight()}, after, call.DefaultPage)
		if err != nil {
			return call.Failure("list the rollouts", err)
		}
		for i := range list {
			r := &list[i]
			if !r.Created.After(q.from) {
				list = nil
				break
			}
			after = r.Number
			q.rolled[r.ID] = true
			if !q.between(r.Created) || !slices.ContainsFunc(r.Processes(), q.asks) {
				continue
			}
			sees, err := s.Rollout(ctx, r)
			if err != nil {
				return call.Failure("list the rollouts", err)
			}
			if sees {
				if sees, err = q.reaches(ctx, r); err != nil {
					return err
				}
			}
			if sees {
				q.out.Rollouts = append(q.out.Rollouts, operations.ViewRollout(r))
			}
		}
		if examined += len(list); len(list) < call.DefaultPage {
			break
		}
		if examined >= mostExamined || s.RowsLeft <= 0 {
			q.incomplete("rollouts")
			break
		}
	}
	q.out.Rollouts = latest(q, "rollouts", q.out.Rollouts)
	return nil
}

// operations lists the tasks that the caller may see. It leaves out queries and the batches of rollouts.
func (q *changesQuery) operations(ctx context.Context) error {
	q.out.Operations = []v1.Task{}
	if q.nowhere() {
		return nil
	}
	f := store.TaskFilter{Sight: q.c.Sight(), Since: q.from, Until: q.to, Agents: q.filter.Agents}
	after, s := int64(0), q.h.operations.NewSeer(q.c)
	for examined := 0; ; {
		tasks, err := q.h.Listing.ListTasks(ctx, f, after, call.DefaultPage)
		if err != nil {
			return call.Failure("list the operations", err)
		}
		for _, t := range tasks {
			after = t.Number
			if t.Op == process.Query || q.rolled[store.RolloutOf(t.ID)] || !q.asks(t.Process) {
				continue
			}
			sees, err := s.Task(ctx, &t)
			if err != nil {
				return call.Failure("list the operations", err)
			}
			if sees {
				q.out.Operations = append(q.out.Operations, operations.ViewTask(t))
			}
		}
		examined += len(tasks)
		if len(tasks) < call.DefaultPage {
			break
		}
		if examined >= mostExamined || s.RowsLeft <= 0 {
			q.incomplete("operations")
			break
		}
	}
	q.out.Operations = latest(q, "operations", q.out.Operations)
	return nil
}

// hosts lists what happened to the hosts that the caller may read.
func (q *changesQuery) hosts(ctx context.Context) error {
	q.out.Hosts = []v1.HostChange{}
	reach := q.Who.OnHosts(access.ReadAgents)
	if reach.Nowhere() {
		return nil
	}
	add := func(key string, at time.Time, kind, text string) {
		agent := q.Ever(key).Agent
		if !q.between(at) || q.agents != nil && !q.agents[key] || !reach.Covers(gate.Host(agent)) {
			return
		}
		agent.Key = key // the only name of an agent that nobody knows any more
		host := q.h.hosts.View(agent)
		host.LastSeen = nil
		q.out.Hosts = append(q.out.Hosts, v1.HostChange{Host: host, At: at.UTC(), Kind: kind, Text: text})
	}
	stays, err := q.stays(ctx)
	if err != nil {
		return err
	}
	for _, s := range stays {
		add(s.Agent, s.Joined, v1.HostJoined, "")
		add(s.Agent, s.Removed, v1.HostRemoved, "")
	}
	now := q.h.Now()
	for a := range q.h.Directory.After(fleet.Place{}) {
		add(a.Key, a.Created, v1.HostJoined, "")
		if p := q.h.Directory.Presence(a.Key, now); p.Away && !p.LastSeen.IsZero() {
			add(a.Key, p.Since, v1.HostWentAway, "and has not come back")
		}
	}
	absences, err := q.h.Timeline.AbsencesBetween(ctx, q.from, q.to, mostExamined)
	if err != nil {
		return call.Failure("list the absences of hosts", err)
	}
	for _, a := range absences {
		away := a.Until.Sub(a.Since).Round(time.Second).String()
		add(a.Agent, a.Since, v1.HostWentAway, "for "+away)
		add(a.Agent, a.Until, v1.HostCameBack, "after "+away)
	}
	if err := q.runs(ctx, add); err != nil {
		return err
	}
	q.renamed(add)
	slices.SortStableFunc(q.out.Hosts, func(a, b v1.HostChange) int { return a.At.Compare(b.At) })
	if len(q.out.Hosts) > q.limit || len(absences) == mostExamined {
		q.incomplete("hosts")
		q.out.Hosts = q.out.Hosts[max(len(q.out.Hosts)-q.limit, 0):]
	}
	return nil
}

// renamed calls add for each host that got another name between the moments.
func (q *changesQuery) renamed(add func(key string, at time.Time, kind, text string)) {
	next := map[string]store.Agent{} // the later names of an agent
	for i := range q.Names {
		n := &q.Names[i]
		later, renamed := next[n.Key]
		if !renamed {
			later = q.Ever(n.Key).Agent
		}
		next[n.Key] = n.Agent
		was, is := hosts.NameOf(n.Agent), hosts.NameOf(later)
		if was == is {
			was, is = hosts.AddressOf(n.Agent), hosts.AddressOf(later)
		}
		if was != is {
			add(n.Key, n.Until, v1.HostRenamed, was+" → "+is)
		}
	}
}

// runs calls add for each restart and each upgrade of an agent between the moments.
func (q *changesQuery) runs(ctx context.Context, add func(key string, at time.Time, kind, text string)) error {
	runs, err := q.h.Timeline.RunsBetween(ctx, q.from, q.to, mostExamined)
	if err != nil {
		return call.Failure("list the runs of agents", err)
	}
	tell := func(r *store.StartedRun) {
		switch at := time.UnixMilli(r.Began); {
		case r.Former == 0: // it has joined
		case r.FormerBuild != "" && r.Build != "" && r.FormerBuild != r.Build:
			add(r.Agent, at, v1.HostUpgraded, r.FormerBuild+" → "+r.Build)
		default:
			add(r.Agent, at, v1.HostRestarted, r.Build)
		}
	}
	trials := map[string]*store.StartedRun{}
	for i := range runs {
		r := &runs[i]
		if trial := trials[r.Agent]; trial != nil {
			delete(trials, r.Agent)
			if r.Build+process.OnTrial == trial.Build { // both are one upgrade
				r.FormerBuild = trial.FormerBuild
			} else {
				tell(trial)
			}
		}
		if strings.HasSuffix(r.Build, process.OnTrial) {
			trials[r.Agent] = r
		} else {
			tell(r)
		}
	}
	for _, trial := range trials {
		tell(trial)
	}
	if len(runs) == mostExamined {
		q.incomplete("hosts")
	}
	return nil
}

// stays returns the times of hosts in the fleet that ended with a removal, also of hosts that have joined again.
func (q *changesQuery) stays(ctx context.Context) ([]store.Stay, error) {
	all, err := q.h.Timeline.StaysBetween(ctx, q.from, q.to, mostExamined)
	if err != nil {
		return nil, call.Failure("list the earlier stays of hosts", err)
	}
	if len(all) == mostExamined {
		q.incomplete("hosts")
	}
	for key, a := range q.Former {
		all = append(all, store.Stay{Agent: key, Joined: a.Created, Removed: a.Removed})
	}
	return all, nil
}

// addChanges adds the changes of an earlier batch to a revision. It merges equal changes and joins their hosts.
func addChanges(to *v1.Revision, changes []v1.RevisionChange) {
	for _, c := range changes {
		same := func(o v1.RevisionChange) bool {
			return o.Process == c.Process && o.Action == c.Action && slices.Equal(o.Fields, c.Fields)
		}
		if i := slices.IndexFunc(to.Changes, same); i >= 0 {
			to.Changes[i].Hosts += c.Hosts
		} else {
			to.Changes = append(to.Changes, c)
		}
	}
}
