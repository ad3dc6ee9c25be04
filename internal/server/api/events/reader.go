package events

import (
	"context"
	"slices"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/server/access"
	"drover/internal/server/api/call"
	"drover/internal/server/api/hosts"
	"drover/internal/server/gate"
	"drover/internal/server/store"
	"drover/internal/wildcard"
)

// Reader selects the events that a caller may see. It looks up the caller's rights once for each namespace. It reads
// the removed agents and the earlier names of agents once, when they are needed.
type Reader struct {
	h      *Handler
	Who    *access.Principal
	reach  map[string]access.Reach
	Former map[string]store.FormerAgent
	// Names are earlier names of agents, the latest first.
	Names []store.FormerName
}

// Reader returns a reader of events for a caller.
func (h *Handler) Reader(who *access.Principal) Reader { return Reader{h: h, Who: who} }

// views shows the events that the caller may see, and leaves out the others.
func (r *Reader) views(ctx context.Context, events []store.StoredEvent) (views []v1.Event, err error) {
	for i := range events {
		agent, err := r.AgentOf(ctx, events[i].Agent)
		if err != nil {
			return nil, err
		}
		if r.At(events[i].Event.Process).Covers(gate.Host(agent.Agent)) {
			agent.Key = events[i].Agent // the only name of an agent that nobody knows any more
			views = append(views, r.h.View(&events[i], r.h.hosts.View(agent.Agent)))
		}
	}
	return views, nil
}

// mostFormer is the largest number of removed agents, and of earlier names of agents, that a reader reads.
const mostFormer = 10_000

// ReadFormer reads the removed agents and the earlier names of agents.
func (r *Reader) ReadFormer(ctx context.Context) error {
	if r.Former != nil {
		return nil
	}
	list, err := r.h.Former.ListFormer(ctx, mostFormer)
	if err != nil {
		return call.Failure("read the removed hosts", err)
	}
	if r.Names, err = r.h.Former.FormerNames(ctx, mostFormer); err != nil {
		return call.Failure("read the earlier names of hosts", err)
	}
	r.Former = map[string]store.FormerAgent{}
	for _, a := range list {
		r.Former[a.Key] = a
	}
	return nil
}

// AgentOf returns an agent, which may have been removed. Removed is zero for a present agent. The result is zero for an
// agent without a record, so that only a caller with rights to all hosts sees its events.
func (r *Reader) AgentOf(ctx context.Context, key string) (store.FormerAgent, error) {
	if _, joined := r.h.Directory.ByKey(key); !joined {
		if err := r.ReadFormer(ctx); err != nil {
			return store.FormerAgent{}, err
		}
	}
	return r.Ever(key), nil
}

// Ever returns the same as AgentOf. Call it after ReadFormer.
func (r *Reader) Ever(key string) store.FormerAgent {
	if a, joined := r.h.Directory.ByKey(key); joined {
		return store.FormerAgent{Agent: a}
	}
	return r.Former[key]
}

// ChosenEver returns the keys of the agents that a choice matches now, as hosts.Handler.KeysOf. It adds removed agents,
// and agents that the choice matches by an earlier name.
func (r *Reader) ChosenEver(ctx context.Context, s hosts.Choice) ([]string, error) {
	keys := r.h.hosts.KeysOf(s)
	if keys == nil {
		return nil, nil
	}
	if err := r.ReadFormer(ctx); err != nil {
		return nil, err
	}
	for key, a := range r.Former {
		if (len(s.Names) == 0 || hosts.AnyMatches(s.Names, a.Agent)) && s.Selects(&a.Agent) {
			keys = append(keys, key)
		}
	}
	for i := range r.Names {
		n := &r.Names[i]
		agent := r.Ever(n.Key).Agent
		if len(s.Names) > 0 && hosts.AnyMatches(s.Names, n.Agent) && s.Selects(&agent) &&
			!slices.Contains(keys, n.Key) {
			keys = append(keys, n.Key)
		}
	}
	return keys, nil
}

// Within returns the patterns of namespaces in which the caller may query processes, so that the store does not read
// other rows. It is nil if the filter names exactly one namespace.
func (r *Reader) Within(named ...string) []string {
	if len(named) == 1 && named[0] != "" && !wildcard.IsPattern(named[0]) {
		return nil
	}
	return r.Who.Namespaces(access.OperationOf(process.Query))
}

// eventsWithin returns the same as Within for events. If the caller may read hosts, it adds the empty namespace of
// events about hosts.
func (r *Reader) eventsWithin(named []string) []string {
	patterns := r.Within(named...)
	if patterns != nil && !r.Who.OnHosts(access.ReadAgents).Nowhere() {
		patterns = append(patterns, "")
	}
	return patterns
}

// At returns the hosts on which the caller may read a process. An event without a process is about the host.
func (r *Reader) At(id process.ID) access.Reach {
	if id == (process.ID{}) {
		return r.Who.OnHosts(access.ReadAgents)
	}
	at, known := r.reach[id.Namespace]
	if !known {
		at = r.Who.On(access.OperationOf(process.Query), id.Namespace)
		if r.reach == nil {
			r.reach = map[string]access.Reach{}
		}
		r.reach[id.Namespace] = at
	}
	return at
}
