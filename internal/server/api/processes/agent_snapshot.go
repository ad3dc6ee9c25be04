package processes

import (
	"context"
	"time"

	v1 "drover/api/v1"
	"drover/internal/server/store"
)

// AgentSnapshot says which agents have not told a restored database all that they have, at a moment before rows are
// read. An agent may do so while the rows are read: rows of such an agent may still be from the backup.
type AgentSnapshot struct {
	at     time.Time
	untold map[string]bool
}

// SnapshotAgents returns the snapshot of now. Take it before the rows are read.
func (h *Handler) SnapshotAgents() AgentSnapshot {
	was := AgentSnapshot{at: h.Now(), untold: map[string]bool{}}
	for _, key := range h.Directory.UnsyncedAgents() {
		was.untold[key] = true
	}
	return was
}

// listObserved reads a page of processes, and returns the snapshot from before the read.
func (h *Handler) listObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey, limit int) (
	was AgentSnapshot, rows []store.Observed, more bool, err error,
) {
	was = h.SnapshotAgents()
	rows, more, err = h.Listing.ListObserved(ctx, f, after, limit)
	return was, rows, more, err
}

// hostOf shows the host of a row that was read after the snapshot was. The host counts as away if the row may be from a
// backup.
func (h *Handler) hostOf(a store.Agent, was AgentSnapshot) v1.Host {
	host := h.hosts.View(a)
	host.Online = host.Online && !was.untold[a.Key]
	return host
}
