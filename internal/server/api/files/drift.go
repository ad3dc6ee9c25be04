package files

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/api/call"
	"drover/internal/server/api/events"
	"drover/internal/server/api/hosts"
	"drover/internal/server/api/processes"
	"drover/internal/server/drift"
	"drover/internal/server/edge"
	"drover/internal/server/fleet"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/server/upkeep"
	"drover/internal/wildcard"
	"drover/internal/wire"
)

const (
	// mostCompared is the largest number of processes on hosts that one call compares with their files.
	mostCompared = 20_000
	// hostsPerRead is the number of hosts for which one read of the database returns rows.
	hostsPerRead = 500
	// liveAbreast is how many hosts are asked at the same time, and liveTime how long all of them may take.
	liveAbreast = 64
	liveTime    = 30 * time.Second
)

// driftQuery is one comparison of files, specs and running processes.
type driftQuery struct {
	h *Handler
	events.Reader
	namespace, name string
	agents          []string // nil for all
	which           processes.Choice
	cases           map[store.ObservedKey]*drift.Case
	closed          bool // there are no further cases
	hosts           map[string]store.Agent
	unasked         []v1.UnaskedHost
}

// ListDrift compares the processes that the caller may query with their files.
func (h *Handler) ListDrift(ctx context.Context, c *call.Call) (call.Reply, error) {
	q := driftQuery{
		h: h, Reader: h.events.Reader(&c.Principal), cases: map[store.ObservedKey]*drift.Case{},
		hosts: map[string]store.Agent{},
	}
	q.namespace, q.name = c.Params.Text("namespace"), c.Params.Text("name")
	q.which = processes.ChoiceOf(&c.Params)
	chosen, live, limit := hosts.ChoiceOf(&c.Params), c.Params.Flag("live"), c.Params.Limit()
	if err := c.Params.Done(); err != nil {
		return call.Reply{}, err
	}
	c.Audit.Target = edge.Clip(q.namespace + "/" + q.name)
	leave, free := h.Readers.Enter(c.Principal.App, call.MaxStreams)
	if !free {
		return call.Reply{}, call.Busy("the app reads too many answers of hosts at the same time", int(call.Heartbeat/time.Second))
	}
	defer leave()
	q.agents = h.hosts.KeysOf(chosen)
	if err := q.read(ctx); err != nil {
		return call.Reply{}, err
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
	return call.OK(answer)
}

// at returns the case of a process on a host; nil if the caller does not ask for the process or may not query it.
func (q *driftQuery) at(key store.ObservedKey) *drift.Case {
	if found := q.cases[key]; found != nil {
		return found
	}
	agent, joined := q.h.Directory.ByKey(key.Agent)
	id := key.Process
	if q.closed || !joined || !q.names(id) || !q.Reader.At(id).Covers(gate.Host(agent)) {
		return nil
	}
	q.cases[key] = &drift.Case{Process: id, Host: hosts.NameOf(agent)}
	q.hosts[key.Agent] = agent
	return q.cases[key]
}

// names reports whether the filter of the caller has a process.
func (q *driftQuery) names(id process.ID) bool {
	return (q.namespace == "" || wildcard.Match(q.namespace, id.Namespace)) &&
		(q.name == "" || wildcard.Match(q.name, id.Name) || wildcard.Match(q.name, processes.BaseOf(id.Name)))
}

// read reads from the database what is compared: specs, files, placements and selections.
func (q *driftQuery) read(ctx context.Context) error {
	f := store.ObservedFilter{
		Namespace: q.namespace, Name: q.name, Copies: true, Agents: q.agents, Within: q.Within(q.namespace), Spec: true,
	}
	q.which.Narrow(&f)
	const many = "more than %d processes are selected: choose a namespace or hosts"
	tooMany := call.Problemf(http.StatusUnprocessableEntity, many, mostCompared)
	err := q.h.processes.EachObserved(ctx, f, func(o *store.Observed) {
		if len(q.cases) > mostCompared || !o.Status.Known || !q.which.Matches(o) {
			return
		}
		if found := q.at(store.ObservedKey{Agent: o.Agent, Process: o.Process}); found != nil {
			found.Have = o
		}
	})
	if err != nil {
		return err
	}
	q.closed = !q.which.Any() // what no host has reported has no state, version or labels
	agents := q.agents
	if agents == nil {
		for a := range q.h.Directory.After(fleet.Place{}) {
			agents = append(agents, a.Key)
		}
	}
	for part := range slices.Chunk(agents, hostsPerRead) {
		if err := q.readPlaced(ctx, part); err != nil {
			return call.Failure("read what is placed on hosts", err)
		}
		if len(q.cases) > mostCompared {
			return tooMany
		}
	}
	if err := q.readSelected(ctx, agents); err != nil {
		return call.Failure("read the selections", err)
	} else if len(q.cases) > mostCompared {
		return tooMany
	}
	if err := q.readFiled(ctx); err != nil {
		return call.Failure("read revisions", err)
	}
	maps.DeleteFunc(q.cases, func(_ store.ObservedKey, c *drift.Case) bool {
		return c.Have == nil && c.Placed == nil && c.Filed == nil && c.Selected == nil // removed, and of no file
	})
	for key, found := range q.cases {
		if err := q.readStarted(ctx, key, found); err != nil {
			return call.Failure("read revisions", err)
		}
	}
	return q.readUnhosted(ctx)
}

// readUnhosted reads who has unhosted processes. When SearchTime is over, the remaining cases stay without that event.
func (q *driftQuery) readUnhosted(ctx context.Context) error {
	begun := time.Now()
	for key, found := range q.cases {
		if !found.Unwatched() || time.Since(begun) > call.SearchTime {
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
				return call.Failure("list the events", err)
			}
			if len(events) > 0 && events[0].Event.Kind == process.EventUnhosted {
				found.Unhosted = &events[0].Event
			}
			if before = next; len(events) > 0 || next == (store.EventMark{}) || time.Since(begun) > call.SearchTime {
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
			found.RemovedBy = left[i].Ended
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
	standing, err := q.h.FileSelections.ListSelections(ctx, "")
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

// readStarted reads the spec that a running process was started with, if the process has got another spec since. A
// database that was restored from a backup may not know the former spec, whose revision may even be higher.
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
					q.unasked = append(q.unasked, v1.UnaskedHost{Host: hosts.NameOf(q.hosts[agent]), Error: problem})
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
	q.unasked = q.unasked[:min(len(q.unasked), call.MaxPage)]
}
