package upkeepdriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
	"drover/internal/server/upkeep"
)

// standing is a selection in force.
type standing struct {
	store.Selection
	matches selector.Selector
}

// round is one look at some hosts.
type round struct {
	k         *Driver
	now       time.Time
	standing  map[process.ID][]*standing
	selectors map[string][]*standing // by their texts
	rolling   map[process.ID]*store.RolloutBusyError
	reaches   map[actor]*access.Reaches
	latest    map[string]int64
	places    []*place
	// looked is how many of the hosts to look at have their processes in places.
	looked int
}

// place is what is known of a process on a host.
type place struct {
	key    store.ObservedKey
	host   store.Agent
	row    store.Upkeep
	placed *store.Placement
	// removed is the revision of a file that has removed the process, which the host still has; nil if there is none.
	removed *store.Revision
	have    *store.Observed
	busy    bool
	reach   upkeep.Reach
	// drifted is the operation that mends the running process; empty if there is nothing to mend.
	drifted process.Op
	// selection is the one that the host matches, or, if the host matches none, one of the process.
	selection *standing
	selected  bool
}

// begin reads what holds for all hosts.
func (r *round) begin(ctx context.Context) (err error) {
	list, err := r.k.Store.ListSelections(ctx, "")
	if err != nil {
		return err
	}
	r.standing, r.selectors = map[process.ID][]*standing{}, map[string][]*standing{}
	for i := range list {
		s := &standing{Selection: list[i]}
		if s.matches, err = selector.Parse(s.Selector); err != nil {
			return fmt.Errorf("cannot read the selection of %s: %w", s.Process, err)
		}
		r.standing[s.Process] = append(r.standing[s.Process], s)
		r.selectors[s.Selector] = append(r.selectors[s.Selector], s)
	}
	r.rolling, err = store.Rolling(ctx, r.k.Store)
	return err
}

// mark returns what a look at a host depends on: its link, and the selections that it matches.
func (r *round) mark(a *store.Agent) string {
	var mark []string
	for text, list := range r.selectors {
		if list[0].matches.Matches(a.Select) {
			at := list[0].At
			for _, s := range list[1:] {
				if s.At.After(at) {
					at = s.At
				}
			}
			mark = append(mark, fmt.Sprintf("%s %d %d", text, len(list), at.UnixNano()))
		}
	}
	slices.Sort(mark)
	return fmt.Sprint(r.present(a.Key), " ", strings.Join(mark, ";"))
}

// present reports whether an agent is connected, and the server knows what its host has.
func (r *round) present(agent string) bool {
	p := r.k.Directory.Presence(agent, r.now)
	return p.Joined && !p.Away && !p.Settling && (p.Linked.IsZero() || r.now.Sub(p.Linked) > settleTime)
}

// read collects the facts about all processes of some hosts. The order of the reads matters: an operation that ends
// after the server has looked for operations under way changes what the host has.
func (r *round) read(ctx context.Context, agents []string) error {
	places, err := r.readPlaces(ctx, agents)
	if err != nil {
		return err
	}
	if err := r.readLatest(ctx, agents, places); err != nil {
		return err
	}
	if err := r.readObserved(ctx, places); err != nil {
		return err
	}
	if err := r.readReach(ctx); err != nil {
		return err
	}
	return r.findDrift(ctx)
}

// readPlaces reads what files and selections say of hosts, and keeps the places that concern upkeep.
func (r *round) readPlaces(ctx context.Context, agents []string) (map[store.ObservedKey]*place, error) {
	placed, err := r.k.Store.PlacedOn(ctx, agents)
	if err != nil {
		return nil, err
	}
	left, err := r.k.Store.LeftOn(ctx, agents)
	if err != nil {
		return nil, err
	}
	rows, err := r.k.Store.UpkeepOn(ctx, agents)
	if err != nil {
		return nil, err
	}
	places := map[store.ObservedKey]*place{}
	at := func(agent string, id process.ID) *place {
		key := store.ObservedKey{Agent: agent, Process: id}
		if places[key] == nil {
			places[key] = &place{key: key, row: store.Upkeep{Process: id, Agent: agent}}
		}
		return places[key]
	}
	for i := range placed {
		at(placed[i].Agent, placed[i].Process).placed = &placed[i]
	}
	for i := range left {
		at(left[i].Agent, left[i].Process).removed = left[i].Ended
	}
	for i := range rows {
		at(rows[i].Agent, rows[i].Process).row = rows[i]
	}
	for _, agent := range agents {
		a, known := r.k.Directory.ByKey(agent)
		if !known {
			continue
		}
		for _, list := range r.selectors {
			if list[0].matches.Matches(a.Select) {
				for _, s := range list {
					p := at(agent, s.Process)
					p.selection, p.selected = s, true
				}
			}
		}
	}
	r.choose(agents, places)
	return places, nil
}

// choose takes the places that concern upkeep, host by host, up to mostPlaces, and at least those of the first host.
// The other hosts have their turn in the next round.
func (r *round) choose(agents []string, places map[store.ObservedKey]*place) {
	concerned := map[string][]*place{}
	for key, p := range places {
		if a, known := r.k.Directory.ByKey(key.Agent); known && r.concerns(p) {
			p.host = a
			concerned[key.Agent] = append(concerned[key.Agent], p)
		}
	}
	for _, agent := range agents {
		if r.looked > 0 && len(r.places)+len(concerned[agent]) > mostPlaces {
			break
		}
		r.places = append(r.places, concerned[agent]...)
		r.looked++
	}
	slices.SortFunc(r.places, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.key.Agent, b.key.Agent), process.CompareIDs(a.key.Process, b.key.Process))
	})
	r.places = r.places[:min(len(r.places), mostPlaces)]
}

// concerns reports whether upkeep can have something to do about a process.
func (r *round) concerns(p *place) bool {
	if list := r.standing[p.key.Process]; p.selection == nil && len(list) > 0 {
		p.selection = list[0]
	}
	return p.selected || p.row.Member != upkeep.Outside || p.ordered() != nil
}

// ordered returns the number and the task of the revision by which a file decides about a process on a host; nil if no
// file does.
func (p *place) ordered() *store.Revision {
	switch {
	case byFile(p.placed):
		return &store.Revision{Number: p.placed.Revision, Task: p.placed.Task}
	case p.placed == nil:
		return p.removed
	}
	return nil
}

// orderedBy reports whether a task carries out the revision of a file that decides.
func (p *place) orderedBy(task string) bool {
	by := p.ordered().Task
	return task == by || p.placed == nil && task == store.RemovalTask(by)
}

// byFile reports whether a file brought a spec, or has it.
func byFile(p *store.Placement) bool {
	return p != nil && (p.Filed || store.ByFile(p.Through))
}

// readLatest reads the latest revisions, and what is under way. A task that comes later makes the task of the driver
// fail, or is under way on the same process.
func (r *round) readLatest(ctx context.Context, agents []string, places map[store.ObservedKey]*place) error {
	r.latest = map[string]int64{}
	for _, p := range r.places {
		namespace := p.key.Process.Namespace
		if _, read := r.latest[namespace]; read {
			continue
		}
		latest, err := r.k.Store.LatestRevision(ctx, namespace)
		if err != nil {
			return err
		}
		r.latest[namespace] = latest
	}
	busy, err := r.k.Store.BusyOn(ctx, agents)
	if err != nil {
		return err
	}
	for _, key := range busy {
		if p := places[key]; p != nil {
			p.busy = true
		}
	}
	return nil
}

// readObserved reads what hosts have.
func (r *round) readObserved(ctx context.Context, places map[store.ObservedKey]*place) error {
	agents := map[process.ID][]string{}
	for _, p := range r.places {
		agents[p.key.Process] = append(agents[p.key.Process], p.key.Agent)
	}
	for id, list := range agents {
		err := r.k.Store.GetObserved(ctx, id, list, func(o store.Observed) error {
			places[store.ObservedKey{Agent: o.Agent, Process: id}].have = &o
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readReach reads what became of the orders of hosts that do not have what they should have.
func (r *round) readReach(ctx context.Context) error {
	missing := map[store.ObservedKey]*place{}
	var tasks, agents []string
	for _, p := range r.places {
		by := p.ordered()
		if by == nil || by.Task == "" || p.placed != nil && p.has() >= p.placed.Revision {
			continue
		}
		missing[p.key] = p
		tasks, agents = append(tasks, by.Task), append(agents, p.key.Agent)
		if p.placed == nil {
			tasks = append(tasks, store.RemovalTask(by.Task))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(tasks)
	var rollouts []string
	err := r.k.Store.TaskFaults(ctx, slices.Compact(tasks), agents,
		func(task string, of store.ObservedKey, fault process.Fault) {
			p := missing[of]
			switch {
			case p == nil || !p.orderedBy(task):
			case fault == process.AgentUnavailable:
				p.reach = upkeep.Unreached
				if id := store.RolloutOf(task); id != "" {
					rollouts = append(rollouts, id)
				}
			default:
				p.reach = upkeep.Answered
			}
		})
	if err != nil || len(rollouts) == 0 {
		return err
	}
	slices.Sort(rollouts)
	aborted, err := r.k.Store.AbortedRollouts(ctx, slices.Compact(rollouts))
	for _, p := range missing {
		if p.reach == upkeep.Unreached && slices.Contains(aborted, store.RolloutOf(p.ordered().Task)) {
			p.reach = upkeep.Answered // an abort ends it for the hosts that were away, too
		}
	}
	return err
}

// has returns the revision of the spec that the host has; 0 if it is unknown.
func (p *place) has() int64 {
	if p.have == nil || p.have.Spec == nil {
		return 0
	}
	return p.have.Spec.Revision
}

// behind reports whether a file placed another spec than the selection has, before the selection. A server that joined
// a host may have read the selections a moment too early, so the time of its order proves nothing.
func (p *place) behind() bool {
	return byFile(p.placed) && (p.placed.Through == v1.ThroughSelection || p.placed.At.Before(p.selection.At)) &&
		!p.placed.Spec.Same(p.selection.Spec)
}

// decide decides about a process on a host. spec is what an order for it brings.
func (r *round) decide(p *place) (d upkeep.Decision, spec *process.Spec) {
	c := upkeep.Case{
		Memory: p.row.Memory, Selected: p.selected, Reach: p.reach, ByFile: byFile(p.placed), Has: p.has(),
		Drifted: p.drifted,
		Known:   p.have != nil && p.have.Status.Known,
		Blocked: p.busy || r.rolling[p.key.Process] != nil || !r.present(p.key.Agent),
	}
	var selected *process.Spec
	if s := p.selection; s != nil {
		c.Standing, c.Chosen, selected = true, fmt.Sprint(s.At.UnixNano()), s.Spec
		c.Stops = s.Spec.Leave == process.LeaveStop
		c.Behind = p.selected && p.row.Member != upkeep.Joined && p.behind()
	}
	if p.placed != nil {
		c.Placed, spec = p.placed.Revision, p.placed.Spec.Unnumbered()
	}
	if p.removed != nil && p.placed == nil {
		c.Removed = p.removed.Number
	}
	if p.placed == nil || c.Behind {
		spec = selected
	}
	if c.Known {
		c.Up = p.have.Status.Running() || p.have.Status.Hosted
	}
	c.Apply, c.OnDemand = r.apply(p, spec), spec != nil && spec.OnDemand
	d = upkeep.Decide(c, r.now)
	if d.Selected {
		spec = selected
	}
	if d.Op.Info().Spec == process.SpecIgnored || d.Removes {
		spec = nil
	}
	return d, spec
}

// apply returns what an apply of a spec does on a host.
func (r *round) apply(p *place, spec *process.Spec) process.Op {
	if spec == nil {
		return ""
	}
	wanted := []plan.Wanted{{Process: p.key.Process, Agent: p.key.Agent, Spec: spec}}
	var known []plan.Known
	if p.have != nil && p.have.Status.Known {
		known = []plan.Known{{Process: p.key.Process, Agent: p.key.Agent, Spec: p.have.Spec, Status: p.have.Status}}
	}
	if _, steps := plan.Make(wanted, known, plan.Options{}); len(steps) > 0 {
		return steps[0].Op
	}
	return ""
}

// part is a task in the making: equal orders on the processes of one namespace, on behalf of one actor.
type part struct {
	namespace string
	actor     actor
	reason    string
	selector  string
}

// act stores the decisions. again are hosts that must be looked at again soon.
func (r *round) act(ctx context.Context, room int) (again []string, err error) {
	tasks, orders := map[part]*store.Task{}, map[part][]*place{}
	var order []part
	var quiet []store.Upkeep
	for _, p := range r.places {
		d, spec := r.decide(p)
		row := p.row
		row.Memory, row.Serial = d.Memory, p.row.Serial+1
		switch {
		case d.Op == "" && d.Memory != p.row.Memory:
			quiet = append(quiet, row)
			continue
		case d.Op == "":
			continue
		case room == 0:
			again = append(again, p.key.Agent)
			continue
		}
		who, allowed, err := r.allowed(ctx, p, d, spec)
		if err != nil {
			return nil, err
		}
		if !allowed {
			continue
		}
		room--
		key := part{p.key.Process.Namespace, who, reason(p, d), ""}
		if d.BySelection() {
			key.selector = p.selection.Selector
		}
		t := tasks[key]
		if t == nil {
			t = &store.Task{
				App: who.app, User: who.user, Ordered: true, Through: v1.ThroughSelection, Message: key.reason,
				Reason:           key.reason,
				ExpectedRevision: &store.ExpectedRevision{Namespace: key.namespace, Number: r.latest[key.namespace]},
				Selector:         key.selector,
			}
			tasks[key], order = t, append(order, key)
		}
		add(t, p, d, spec)
		t.Upkeep = append(t.Upkeep, row)
		orders[key] = append(orders[key], p)
	}
	if err := r.remember(ctx, quiet); err != nil {
		return nil, err
	}
	for _, key := range order {
		if _, err := r.k.submit(ctx, tasks[key], len(orders[key])); err != nil {
			return nil, err
		}
		for _, p := range orders[key] { // the next step, or another attempt
			if p.drifted != "" {
				r.k.mended[p.key.Process] = mend{p.key.Agent, r.now}
			}
			again = append(again, p.key.Agent)
		}
	}
	return again, nil
}

// remember stores decisions without orders.
func (r *round) remember(ctx context.Context, rows []store.Upkeep) error {
	if len(rows) == 0 {
		return nil
	}
	err := r.k.Store.PutUpkeep(ctx, rows)
	if !errors.Is(err, store.ErrUpkept) {
		return err
	}
	for _, row := range rows { // one of them has changed in the meantime
		if err := r.k.Store.PutUpkeep(ctx, []store.Upkeep{row}); err != nil && !errors.Is(err, store.ErrUpkept) {
			return err
		}
	}
	return nil
}

// allowed returns on whose behalf an order is given, and whether that caller has the rights now.
func (r *round) allowed(ctx context.Context, p *place, d upkeep.Decision, spec *process.Spec) (actor, bool, error) {
	var who actor
	switch {
	case p.selection != nil && d.BySelection():
		who = actor{p.selection.App, p.selection.User}
	case p.placed != nil:
		who = actor{p.placed.App, p.placed.User}
	case p.removed != nil:
		who = actor{p.removed.App, p.removed.User}
	default:
		return who, false, nil
	}
	if r.reaches[who] == nil {
		principal, err := r.k.Rights.Acting(ctx, who.app, who.user)
		if _, refused := errors.AsType[*gate.Refusal](err); err != nil && !refused {
			return who, false, err
		}
		r.reaches[who] = access.NewReaches(principal)
	}
	reaches, namespace, host := r.reaches[who], p.key.Process.Namespace, gate.Host(p.host)
	may := reaches.On(access.OperationOf(d.Op), namespace).Covers(host) &&
		(spec == nil || reaches.Sets(namespace).Covers(host))
	return who, may, nil
}

// reason says in words why an order is given. Orders for one host with the same reason keep the order of its processes.
func reason(p *place, d upkeep.Decision) string {
	switch {
	case d.Selected:
		return "hosts came to match"
	case d.BySelection():
		return "hosts ceased to match"
	case p.placed != nil && p.has() >= p.placed.Revision:
		return "processes had drifted"
	default:
		return "hosts were away"
	}
}

// add adds an order to a task. Hosts with the same order share a request.
func add(t *store.Task, p *place, d upkeep.Decision, spec *process.Spec) {
	name := fleet.NameOf(p.host)
	target := store.Target{ItemKey: store.ItemKey(p.key.Process, name), Spelling: name, Agent: p.key.Agent}
	for i := range t.Requests {
		r := &t.Requests[i]
		if r.Op == d.Op && r.Process == p.key.Process && r.Removes == d.Removes &&
			(r.Spec == spec || r.Spec.Same(spec)) {
			r.Targets = append(r.Targets, target)
			return
		}
	}
	t.Requests = append(t.Requests, store.Request{
		Op: d.Op, Process: p.key.Process, Spec: spec, Removes: d.Removes, Targets: []store.Target{target},
	})
}
