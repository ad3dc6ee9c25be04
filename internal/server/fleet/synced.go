package fleet

import (
	"context"
	"iter"
	"time"

	"drover/internal/idle"
	"drover/internal/server/store"
)

const (
	// toldTime is how long AwaitTold waits at most, and toldLook how often it looks.
	toldTime = 20 * time.Second
	toldLook = 50 * time.Millisecond
)

// Presences are the agents and their presence.
type Presences interface {
	After(place Place) iter.Seq[store.Agent]
	Presence(key string, now time.Time) Presence
}

// AwaitTold waits until the connected agents have told a restored database what they have, for some seconds at most.
// What the database says of them before is of the time of the copy.
func AwaitTold(ctx context.Context, agents Presences, now func() time.Time) {
	end := now().Add(toldTime)
	for tellsSoon(agents, now()) && now().Before(end) && idle.Sleep(ctx, toldLook) {
	}
}

// tellsSoon reports whether an agent is connected, or may be about to connect, that has not told what it has.
func tellsSoon(agents Presences, now time.Time) bool {
	for a := range agents.After(Place{}) {
		if p := agents.Presence(a.Key, now); p.Untold && (p.Settling || !p.Vacant) {
			return true
		}
	}
	return false
}

// SetIncarnation sets the incarnation of the database. Agents that have not told it all that they have are away. All
// agents have to introduce themselves again.
func (d *Directory) SetIncarnation(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.incarnation = id
	d.reintroduce()
}

// Reintroduce makes all agents introduce themselves again, so that each of them learns what the database knows of it.
func (d *Directory) Reintroduce() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reintroduce()
}

// reintroduce is Reintroduce; the caller holds the lock.
func (d *Directory) reintroduce() {
	for key, l := range d.links {
		l.introduced = false
		d.links[key] = l
	}
}

// RecordSynced notes that an agent has told an incarnation all that it has. It returns store.ErrNotFound for an unknown
// agent.
func (d *Directory) RecordSynced(ctx context.Context, key, incarnation string) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	if a, known := d.ByKey(key); !known || a.SyncedIncarnation == incarnation {
		return nil
	}
	if err := d.agents.SetSyncedIncarnation(ctx, key, incarnation); err != nil {
		return err
	}
	d.mu.Lock()
	a, known := d.byKey[key]
	if known {
		a.SyncedIncarnation = incarnation
		d.byKey[key] = a
	}
	d.mu.Unlock()
	d.changed(key)
	return nil
}

// UnsyncedAgents returns the agents that have not told the database all that they have.
func (d *Directory) UnsyncedAgents() (keys []string) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for key := range d.byKey {
		if d.unsynced(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// unsynced reports whether the database lacks a part of what an agent has; the caller holds the lock.
func (d *Directory) unsynced(key string) bool {
	return d.byKey[key].SyncedIncarnation != d.incarnation && d.incarnation != ""
}

// syncedIncarnation returns the incarnation to which an agent has told all: the present one for a new agent, of which
// the database says nothing.
func (d *Directory) syncedIncarnation(key string) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if a, known := d.byKey[key]; known {
		return a.SyncedIncarnation
	}
	return d.incarnation
}
