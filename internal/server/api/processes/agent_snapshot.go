package processes

import (
	"context"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/store"
)

// AgentSnapshot is what the servers have heard of the agents at a moment before rows are read. An agent may tell a
// restored database what it has while they are read: then the rows still are of the time of the copy.
type AgentSnapshot struct {
	at     time.Time
	untold map[string]bool
}

// SnapshotAgents returns what the servers have heard of the agents now.
func (h *Handler) SnapshotAgents() AgentSnapshot {
	was := AgentSnapshot{at: h.Now(), untold: map[string]bool{}}
	for _, key := range h.Directory.UnsyncedAgents() {
		was.untold[key] = true
	}
	return was
}

// listObserved reads a page of processes, and what the servers had heard before.
func (h *Handler) listObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey, limit int) (
	was AgentSnapshot, rows []store.Observed, more bool, err error,
) {
	was = h.SnapshotAgents()
	rows, more, err = h.Listing.ListObserved(ctx, f, after, limit)
	return was, rows, more, err
}

// hostOf shows the host of a row that was read after was. The host counts as away if the row may be of the time of a
// copy.
func (h *Handler) hostOf(a store.Agent, was AgentSnapshot) v1.Host {
	host := h.hosts.View(a)
	host.Online = host.Online && !was.untold[a.Key]
	return host
}
