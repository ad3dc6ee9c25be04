package apiv1

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
	"drover/internal/selector"
	"drover/internal/server/access"
	"drover/internal/server/drift"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/plan"
	"drover/internal/server/store"
	"drover/internal/server/upkeep"
	"drover/internal/wildcard"
	"drover/internal/wire"
)

// canonical returns an expression in the form that the store has; empty for none.
func canonical(text string) string {
	s, err := selector.Parse(text)
	if err != nil { // processfile has checked it, so it is empty
		return ""
	}
	return s.String()
}

// selected marks the processes that hosts have by a selection in force, and returns these selections.
func (h *Handler) selected(ctx context.Context, namespace string, known []plan.Known) ([]store.Selection, error) {
	standing, err := h.Standing.ListSelections(ctx, namespace)
	if err != nil {
		return nil, failure("read the selections", err)
	}
	of := map[process.ID][]store.Selection{}
	for _, s := range standing {
		of[s.Process] = append(of[s.Process], s)
	}
	parsed := map[string]selector.Selector{}
	for i := range known {
		agent, _ := h.Directory.ByKey(known[i].Agent)
		for _, s := range of[known[i].Process] {
			if _, done := parsed[s.Selector]; !done {
				parsed[s.Selector], _ = selector.Parse(s.Selector) // it is in canonical form
			}
			if parsed[s.Selector].Matches(agent.Select) {
				known[i].Selector = s.Selector
				break
			}
		}
	}
	return standing, nil
}

// selectionsOf returns what the processes of a file change in the selections in force; nil if that is nothing.
func (h *Handler) selectionsOf(t *store.Task, docs []processfile.Document, wanted []plan.Wanted,
	standing []store.Selection, all bool,
) *store.SelectionChange {
	c := store.SelectionChange{Namespace: docs[0].Namespace, All: all}
	entries := map[string]bool{}
	for _, d := range docs {
		for i := range d.Processes {
			entries[d.Processes[i].Name] = true
		}
	}
	c.Entries = slices.Sorted(maps.Keys(entries))
	type name struct {
		process.ID
		selector string
	}
	now := map[name]*process.Spec{}
	for _, w := range wanted {
		if w.Selector == "" {
			continue
		}
		c.Members = append(c.Members, store.ObservedKey{Agent: w.Agent, Process: w.Process})
		if key := (name{w.Process, w.Selector}); now[key] == nil {
			now[key] = w.Spec.Unnumbered()
			c.Now = append(c.Now, store.Selection{
				Process: w.Process, Selector: w.Selector, Spec: now[key], App: t.App, User: t.User, At: t.Created,
			})
		}
	}
	same, changed := 0, false
	for _, s := range standing {
		switch spec := now[name{s.Process, s.Selector}]; {
		case spec.Same(s.Spec):
			same++
		case spec != nil: // its hosts are members
			changed = true
		case all || entries[s.Process.Name] || entries[entryOf(s.Process)]:
			changed = true
			matching, _ := h.matching(s.Selector) // it is in canonical form
			for a := range matching {
				c.Released = append(c.Released, store.ObservedKey{Agent: a.Key, Process: s.Process})
			}
		}
	}
	if !changed && same == len(now) {
		return nil
	}
	c.Released = without(c.Released, c.Members)
	return &c
}

// putSelections changes selections without an operation, because every host that matches has the process already.
func (h *Handler) putSelections(ctx context.Context, c *call, t *store.Task, wanted []plan.Wanted,
	change *store.SelectionChange,
) error {
	steps := make([]plan.Step, 0, len(wanted))
	for _, w := range wanted {
		steps = append(steps, plan.Step{Op: process.Start, Process: w.Process, Agent: w.Agent, Host: w.Host})
	}
	if err := h.mayApply(c, steps); err != nil {
		return err
	}
	c.Audit.Target, c.Audit.Targets = change.Namespace, len(wanted)
	row := c.Row()
	row.Message = process.Success
	by := store.Revision{At: t.Created, App: t.App, User: t.User, Through: t.Through, Message: t.Message}
	switch err := h.Standing.PutSelections(ctx, *change, by, t.Known, row); {
	case errors.Is(err, store.ErrRevised):
		return changedMeanwhile(change.Namespace)
	case err != nil:
		return failure("store the selections", err)
	}
	c.Audited = true
	return nil
}

// selectionsByRollout gives each rollout what it changes in the selections in force once it is done, and what brings
// them back. Entries without a step belong to the first rollout.
func selectionsByRollout(list []*store.Rollout, change *store.SelectionChange, standing []store.Selection,
	known []plan.Known,
) {
	if change == nil {
		return
	}
	owner := map[string]*store.Rollout{}
	for _, r := range list {
		for _, id := range r.Processes() {
			owner[entryOf(id)] = r
		}
	}
	entries := slices.Clone(change.Entries)
	if change.All {
		for _, s := range standing {
			entries = append(entries, entryOf(s.Process))
		}
	}
	slices.Sort(entries)
	of := map[*store.Rollout][]string{}
	for _, entry := range slices.Compact(entries) {
		r := cmp.Or(owner[entry], list[0])
		of[r] = append(of[r], entry)
	}
	for r, entries := range of {
		r.Selections = partOf(*change, entries)
		r.Former = formerOf(r.Selections, standing, known)
	}
}

// matching returns the hosts that an expression matches.
func (h *Handler) matching(text string) (iter.Seq[store.Agent], error) {
	s, err := selector.Parse(text)
	return func(yield func(store.Agent) bool) {
		for a := range h.Directory.After(fleet.Place{}) {
			if s.Matches(a.Select) && !yield(a) {
				return
			}
		}
	}, err
}

// maySelect rejects a change of selections in force on hosts where the caller may not start the process. Who replaces a
// selection decides for all hosts that match it.
func (h *Handler) maySelect(c *call, change *store.SelectionChange, standing []store.Selection) error {
	if change == nil {
		return nil
	}
	type place struct {
		process process.ID
		host    access.Host
	}
	var places []place
	for _, s := range standing {
		if !change.All && !slices.Contains(change.Entries, entryOf(s.Process)) {
			continue
		}
		matching, err := h.matching(s.Selector)
		if err != nil {
			return failure("read a selection", err)
		}
		for a := range matching {
			places = append(places, place{s.Process, gate.Host(a)})
		}
	}
	who := c.Principal
	who.Targets = len(places)
	reach := who.Sets(change.Namespace)
	var missing access.Missing
	for _, p := range places {
		missing.Check(reach, p.process.String(), p.host)
	}
	if missing.Any() {
		return forbidden(missing)
	}
	return nil
}

// selectAsBefore has the undo of a rollout bring back the selections that the rollout has replaced.
func (h *Handler) selectAsBefore(ctx context.Context, c *call, undo *store.Rollout, known []plan.Known) error {
	former, err := h.Rollouts.FormerSelections(ctx, undo.Undoes)
	if err != nil {
		return failure("read the rollout", err)
	}
	if former == nil {
		return nil
	}
	standing, err := h.selected(ctx, former.Namespace, known)
	if err != nil {
		return err
	}
	if err := h.maySelect(c, former, slices.Concat(standing, former.Now)); err != nil {
		return err
	}
	undo.Selections, undo.Former = former, formerOf(former, standing, known)
	return nil
}

// entryOf is the entry of a file that has a process or its copies.
func entryOf(id process.ID) string {
	entry, _ := process.CutCopy(id.Name)
	return entry
}

// partOf is the part of a change that concerns some entries.
func partOf(c store.SelectionChange, entries []string) *store.SelectionChange {
	foreign := func(id process.ID) bool { return !slices.Contains(entries, entryOf(id)) }
	elsewhere := func(key store.ObservedKey) bool { return foreign(key.Process) }
	return &store.SelectionChange{
		Namespace: c.Namespace, Entries: entries,
		Now:      slices.DeleteFunc(slices.Clone(c.Now), func(s store.Selection) bool { return foreign(s.Process) }),
		Members:  slices.DeleteFunc(slices.Clone(c.Members), elsewhere),
		Released: slices.DeleteFunc(slices.Clone(c.Released), elsewhere),
	}
}

// formerOf is the change that brings back the present selections, which a change replaces. known have their selectors.
func formerOf(change *store.SelectionChange, standing []store.Selection, known []plan.Known) *store.SelectionChange {
	former := store.SelectionChange{Namespace: change.Namespace, Now: standing}
	for i := range known {
		if known[i].Selector != "" {
			key := store.ObservedKey{Agent: known[i].Agent, Process: known[i].Process}
			former.Members = append(former.Members, key)
		}
	}
	former.Released = without(change.Members, former.Members)
	return partOf(former, change.Entries)
}

// Upkeep is what a comparison of hosts with their files reads, and what an apply without a change on a host writes.
type Upkeep interface {
	store.Upkeeping
	store.Filings
}

const (
	// mostCompared is how many processes on hosts a call compares with their files.
	mostCompared = 20_000
	// hostsPerRead is how many hosts one read of the database is about.
	hostsPerRead = 500
	// liveAbreast is how many hosts are asked at the same time, and liveTime how long all of them may take.
	liveAbreast = 64
	liveTime    = 30 * time.Second
)

// driftQuery is one comparison of files, specs and running processes.
type driftQuery struct {
	eventReader
	namespace, name string
	agents          []string // nil for all
	which           processChoice
	cases           map[store.ObservedKey]*drift.Case
	closed          bool // there are no further cases
	hosts           map[string]store.Agent
	unasked         []v1.UnaskedHost
}

// listDrift compares the processes that the caller may query with their files.
func (h *Handler) listDrift(ctx context.Context, c *call) (reply, error) {
	q := driftQuery{
		eventReader: eventReader{h: h, who: &c.Principal}, cases: map[store.ObservedKey]*drift.Case{},
		hosts: map[string]store.Agent{},
	}
	q.namespace, q.name = c.params.text("namespace"), c.params.text("name")
	q.which = c.params.processes()
	chosen, live, limit := c.params.hosts(), c.params.flag("live"), c.params.limit()
	if err := c.params.done(); err != nil {
		return reply{}, err
	}
	c.Audit.Target = edge.Clip(q.namespace + "/" + q.name)
	leave, free := h.readers.enter(c.Principal.App, maxStreams)
	if !free {
		return reply{}, busy("the app reads too many answers of hosts at the same time", int(heartbeat/time.Second))
	}
	defer leave()
	q.agents = h.chosen(chosen)
	if err := q.read(ctx); err != nil {
		return reply{}, err
	}
	if live == nil || *live {
		q.ask(ctx)
	}
	answer := v1.DriftReport{Items: []v1.Difference{}, Unasked: q.unasked, Processes: len(q.cases)}
	keys := slices.SortedFunc(maps.Keys(q.cases), func(a, b store.ObservedKey) int {
		return cmp.Or(process.CompareIDs(a.Process, b.Process), cmp.Compare(q.cases[a].Host, q.cases[b].Host))
	})
	for _, key := range keys {
		found := drift.Of(*q.cases[key])
		answer.Total += len(found)
		answer.Items = append(answer.Items, found[:min(len(found), limit-len(answer.Items))]...)
	}
	if answer.Unasked == nil {
		answer.Unasked = []v1.UnaskedHost{}
	}
	c.Audit.Targets = len(q.cases)
	return ok(answer)
}

// at returns the case of a process on a host; nil if the caller does not ask for it or may not query it.
func (q *driftQuery) at(key store.ObservedKey) *drift.Case {
	if found := q.cases[key]; found != nil {
		return found
	}
	agent, joined := q.h.Directory.ByKey(key.Agent)
	id := key.Process
	if q.closed || !joined || !q.names(id) || !q.eventReader.at(id).Covers(gate.Host(agent)) {
		return nil
	}
	q.cases[key] = &drift.Case{Process: id, Host: nameOf(agent)}
	q.hosts[key.Agent] = agent
	return q.cases[key]
}

// names reports whether the caller asks for a process.
func (q *driftQuery) names(id process.ID) bool {
	return (q.namespace == "" || wildcard.Match(q.namespace, id.Namespace)) &&
		(q.name == "" || wildcard.Match(q.name, id.Name) || wildcard.Match(q.name, baseOf(id.Name)))
}

// read collects what the database has.
func (q *driftQuery) read(ctx context.Context) error {
	f := store.ObservedFilter{
		Namespace: q.namespace, Name: q.name, Copies: true, Agents: q.agents, Within: q.within(q.namespace), Spec: true,
	}
	q.which.narrow(&f)
	const many = "more than %d processes are selected: choose a namespace or hosts"
	tooMany := problemf(http.StatusUnprocessableEntity, many, mostCompared)
	err := q.h.eachObserved(ctx, f, func(o *store.Observed) {
		if len(q.cases) > mostCompared || !o.Status.Known || !q.which.matches(o) {
			return
		}
		if found := q.at(store.ObservedKey{Agent: o.Agent, Process: o.Process}); found != nil {
			found.Have = o
		}
	})
	if err != nil {
		return err
	}
	q.closed = !q.which.any() // what no host has reported has no state, version or labels
	agents := q.agents
	if agents == nil {
		for a := range q.h.Directory.After(fleet.Place{}) {
			agents = append(agents, a.Key)
		}
	}
	for part := range slices.Chunk(agents, hostsPerRead) {
		if err := q.readPlaced(ctx, part); err != nil {
			return failure("read what is placed on hosts", err)
		}
		if len(q.cases) > mostCompared {
			return tooMany
		}
	}
	if err := q.readSelected(ctx, agents); err != nil {
		return failure("read the selections", err)
	} else if len(q.cases) > mostCompared {
		return tooMany
	}
	if err := q.readFiled(ctx); err != nil {
		return failure("read revisions", err)
	}
	maps.DeleteFunc(q.cases, func(_ store.ObservedKey, c *drift.Case) bool {
		return c.Have == nil && c.Placed == nil && c.Filed == nil && c.Selected == nil // removed, and of no file
	})
	for key, found := range q.cases {
		if err := q.readStarted(ctx, key, found); err != nil {
			return failure("read revisions", err)
		}
	}
	return q.readUnhosted(ctx)
}

// readUnhosted reads who has unhosted processes. For lack of time it leaves the others without that.
func (q *driftQuery) readUnhosted(ctx context.Context) error {
	begun := time.Now()
	for key, found := range q.cases {
		if !found.Unwatched() || time.Since(begun) > searchTime {
			continue
		}
		f := store.EventFilter{
			Agents: []string{key.Agent}, Namespaces: []string{key.Process.Namespace}, Name: key.Process.Name,
			Kinds: []process.EventKind{
				process.EventUnhosted, process.EventHosted, process.EventStarted, process.EventRestarted,
			},
		}
		for before := (store.EventMark{}); ; {
			events, next, err := q.h.Events.EventsBefore(ctx, before, f, 1)
			if err != nil {
				return failure("list the events", err)
			}
			if len(events) > 0 && events[0].Event.Kind == process.EventUnhosted {
				found.Unhosted = &events[0].Event
			}
			if before = next; len(events) > 0 || next == (store.EventMark{}) || time.Since(begun) > searchTime {
				break
			}
		}
	}
	return nil
}

// readPlaced reads what is placed on hosts, what people have removed there, and which hosts should have a process by a
// selection.
func (q *driftQuery) readPlaced(ctx context.Context, agents []string) error {
	placed, err := q.h.Upkeep.PlacedOn(ctx, agents)
	if err != nil {
		return err
	}
	for i := range placed {
		if found := q.at(store.ObservedKey{Agent: placed[i].Agent, Process: placed[i].Process}); found != nil {
			found.Placed = &placed[i]
		}
	}
	removed, err := q.h.Upkeep.RemovedOn(ctx, agents)
	if err != nil {
		return err
	}
	for _, key := range removed {
		q.at(key)
	}
	left, err := q.h.Upkeep.LeftOn(ctx, agents)
	if err != nil {
		return err
	}
	for i := range left {
		if found := q.at(store.ObservedKey{Agent: left[i].Agent, Process: left[i].Process}); found != nil {
			found.Left = left[i].Ended
		}
	}
	rows, err := q.h.Upkeep.UpkeepOn(ctx, agents)
	for i := range rows {
		if rows[i].Member == upkeep.Joined {
			q.at(store.ObservedKey{Agent: rows[i].Agent, Process: rows[i].Process})
		}
	}
	return err
}

// readSelected reads which hosts match a selection in force, the first of several, except for processes that roll out.
func (q *driftQuery) readSelected(ctx context.Context, agents []string) error {
	standing, err := q.h.Standing.ListSelections(ctx, "")
	var rolling map[process.ID]*store.RolloutBusyError
	if err != nil || len(standing) == 0 {
		return err
	} else if rolling, err = store.Rolling(ctx, q.h.Rollouts); err != nil {
		return err
	}
	selected := map[process.ID]bool{}
	for i := range standing {
		s := &standing[i]
		if !q.names(s.Process) || rolling[s.Process] != nil {
			continue
		}
		selected[s.Process] = true
		matches, err := selector.Parse(s.Selector)
		if err != nil {
			return err
		}
		for _, agent := range agents {
			if a, joined := q.h.Directory.ByKey(agent); joined && matches.Matches(a.Select) {
				found := q.at(store.ObservedKey{Agent: agent, Process: s.Process})
				if found != nil && found.Selected == nil {
					found.Selected = s
				}
			}
		}
	}
	for key, found := range q.cases {
		found.Unwanted = found.Selected == nil && selected[key.Process]
	}
	return nil
}

// readFiled reads what the latest file says of each process.
func (q *driftQuery) readFiled(ctx context.Context) error {
	elsewhere := map[process.ID][]string{}
	for key, found := range q.cases {
		if p := found.Placed; p != nil && p.Filed {
			found.Filed = p
		} else {
			elsewhere[key.Process] = append(elsewhere[key.Process], key.Agent)
		}
	}
	for id, agents := range elsewhere {
		for part := range slices.Chunk(agents, hostsPerRead) {
			list, err := q.h.Upkeep.FiledAs(ctx, id, part)
			if err != nil {
				return err
			}
			for i := range list {
				q.cases[store.ObservedKey{Agent: list[i].Agent, Process: id}].Filed = &list[i]
			}
		}
	}
	return nil
}

// readStarted reads with which spec a process was started, if it has got another one since. A database that was
// restored from a copy may know nothing of that spec, which may have the higher number.
func (q *driftQuery) readStarted(ctx context.Context, key store.ObservedKey, found *drift.Case) error {
	if found.Filed == nil && found.Selected == nil || found.Have == nil || found.Have.Spec == nil {
		return nil
	}
	runs, has := found.Have.Status.Instance.Revision, found.Have.Spec.Revision
	if runs == 0 || runs == has {
		return nil
	}
	var err error
	found.Started, _, err = q.h.Revisions.RevisedSpecs(ctx, key.Process, key.Agent, runs, has)
	return err
}

// ask asks the hosts about their running processes. It does not wait for a host for longer than liveTime.
func (q *driftQuery) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	running := map[string][]process.ID{}
	for key, found := range q.cases {
		if (found.Filed != nil || found.Selected != nil) && found.Have != nil && found.Have.Status.Running() {
			running[key.Agent] = append(running[key.Agent], key.Process)
		}
	}
	var mu sync.Mutex
	var askers sync.WaitGroup
	places := make(chan struct{}, liveAbreast)
	for _, agent := range slices.Sorted(maps.Keys(running)) {
		places <- struct{}{}
		askers.Go(func() {
			defer func() { <-places }()
			for ids := range slices.Chunk(running[agent], wire.MaxLive) {
				a, err := q.h.Logs.Live(ctx, agent, wire.LiveQuestion{Processes: ids})
				problem := a.Error
				if err != nil {
					problem = err.Error()
				}
				mu.Lock()
				if problem != "" {
					q.unasked = append(q.unasked, v1.UnaskedHost{Host: nameOf(q.hosts[agent]), Error: problem})
				}
				for _, p := range a.Processes {
					if found := q.cases[store.ObservedKey{Agent: agent, Process: p.Process}]; found != nil {
						found.Live = p.Fields
						if p.Compared {
							now := *found.Have
							now.Status.Config, found.Have = p.Config, &now
						}
					}
				}
				mu.Unlock()
				if problem != "" {
					return
				}
			}
		})
	}
	askers.Wait()
	slices.SortFunc(q.unasked, func(a, b v1.UnaskedHost) int { return cmp.Compare(a.Host, b.Host) })
	q.unasked = q.unasked[:min(len(q.unasked), maxPage)]
}
