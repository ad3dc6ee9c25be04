package engine

import (
	"sync"

	"drover/internal/server/store"
)

// outbox queues the items of each agent while a send to that agent runs. So an agent gets one manifest after another,
// and a slow agent delays only itself.
type outbox struct {
	mu     sync.Mutex
	agents map[string]*queue
}

// queue is the queue of one agent. It exists while the agent is served.
type queue struct {
	waiting []store.Item
	// known holds the ids of the items that wait or are on the way. So an item whose lease ended meanwhile is not
	// queued twice.
	known map[string]bool
}

func newOutbox() *outbox { return &outbox{agents: map[string]*queue{}} }

// put adds items of one agent. It returns true if no goroutine serves the agent: then the caller must call take until
// take returns false.
func (o *outbox) put(agent string, items []store.Item) (serve bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q, ok := o.agents[agent]
	if !ok {
		q = &queue{known: map[string]bool{}}
		o.agents[agent] = q
	}
	for _, it := range items {
		if !q.known[it.ID] {
			q.known[it.ID] = true
			q.waiting = append(q.waiting, it)
		}
	}
	return !ok
}

// take returns the waiting items of the agent, and forgets the items that it returned before. False means that nothing
// waits; the caller no longer serves the agent.
func (o *outbox) take(agent string) ([]store.Item, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.agents[agent]
	items := q.waiting
	if len(items) == 0 {
		delete(o.agents, agent)
		return nil, false
	}
	q.waiting, q.known = nil, make(map[string]bool, len(items))
	for i := range items {
		q.known[items[i].ID] = true
	}
	return items, true
}

// countQueued returns the number of waiting items of all agents.
func (o *outbox) countQueued() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, q := range o.agents {
		n += len(q.waiting)
	}
	return n
}
