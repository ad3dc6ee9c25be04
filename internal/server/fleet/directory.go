// Package fleet knows the agents: the register, the names that callers use for them, and their presence: which agents
// are online and which are away (presence.go). It reads the register from the store once and writes changes through.
// Presence lives in memory only, because it changes too often to store.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"drover/internal/server/store"
)

// ErrTaken is returned by Join for an address or id of another agent that is online.
var ErrTaken = errors.New("held by another agent that is online")

// ErrKnown is returned by Admit for an address or id of another agent that is offline, unless it is to be replaced.
var ErrKnown = errors.New("held by another agent")

// ErrElsewhere is returned by Join and Admit for an id of an agent of another area, whether or not that agent is
// online. The right to join one area gives no right to the names of another.
var ErrElsewhere = errors.New("held by an agent of another area")

// ErrMisleading is returned by Join, Admit and Assign for an id that reads as the address of another host, whether or
// not there is one.
var ErrMisleading = errors.New("it looks like the address of another host")

// ErrUnsettled is returned by Admit for a name of another agent, if the server has just started and does not know yet
// whether that agent is online.
var ErrUnsettled = errors.New("held by another agent, and the server does not know yet whether that agent is online")

// Directory is the register of agents and their presence. Its methods may be called from any goroutine.
type Directory struct {
	agents store.Agents

	// joining is held during a write, so that joins are checked and stored one after another.
	joining sync.Mutex

	mu      sync.RWMutex
	started time.Time
	linked  time.Time // when the server last connected to its fabric; never before started
	byKey   map[string]store.Agent
	byID    map[string]string    // stable id, its own or assigned → key
	byAddr  map[address]string   // → key
	order   []Place              // of all agents; nil if it must be computed again
	links   map[string]agentLink // by key
	early   map[string]agentLink // by key, for agents whose rows have not arrived yet
	rivals  map[string]Rival     // by the key that they use
	remarks map[string]string    // by key
	// doubtful has the agents that have reported since Compare found none of their subscriptions.
	doubtful map[string]bool
	// news has the links that changed by reports to this server, and whether by an introduction. It is nil if other
	// servers do not share the register.
	news map[string]bool
	// changed is called with an agent whose row this server has changed.
	changed func(agent string)
	// compared is set if Compare is called.
	compared bool
	// incarnation is the one of the database; empty means that it does not matter.
	incarnation string
	// closed makes Join reject new agents.
	closed bool
	// lookups bounds how often Find asks the store.
	lookups *rate.Limiter
}

// New returns an empty directory of a server that was started at the given time. Load fills it.
func New(agents store.Agents, started time.Time) *Directory {
	return &Directory{
		agents:  agents,
		started: started,
		linked:  started,
		byKey:   map[string]store.Agent{},
		byID:    map[string]string{},
		byAddr:  map[address]string{},
		links:   map[string]agentLink{},
		early:   map[string]agentLink{},
		rivals:  map[string]Rival{},
		remarks: map[string]string{}, doubtful: map[string]bool{},
		changed: func(string) {},
		lookups: rate.NewLimiter(lookupsRate, lookupsAtOnce),
	}
}

// Load reads the register from the store; it may be called again. If several stored agents have the same name, the
// agent that joined last gets it.
func (d *Directory) Load(ctx context.Context) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	all, err := d.agents.ListAgents(ctx)
	if err != nil {
		return fmt.Errorf("cannot load agents: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	there := make(map[string]bool, len(all))
	for _, a := range all {
		there[a.Key] = true
		d.take(a)
	}
	for key := range d.byKey {
		if !there[key] {
			d.forget(key)
		}
	}
	return nil
}

// forget removes an agent; the caller holds the lock.
func (d *Directory) forget(key string) {
	d.unname(key)
	d.unregister(key)
	delete(d.links, key)
	delete(d.doubtful, key)
	delete(d.rivals, key)
	delete(d.remarks, key)
}

// take indexes a stored agent. A name that several agents have belongs to the agent that joined last. The caller holds
// the lock.
func (d *Directory) take(a store.Agent) {
	d.unname(a.Key)
	d.register(a)
	d.catchUp(a.Key)
	free := func(holder string) bool { return holder == "" || !d.byKey[holder].Created.After(a.Created) }
	if addr := addressOf(a.Cloud, a.IP); free(d.byAddr[addr]) {
		d.byAddr[addr] = a.Key
	}
	for _, id := range []string{a.Assigned, a.ID} {
		if id != "" && free(d.byID[id]) {
			d.byID[id] = a.Key
		}
	}
}

// put indexes an agent that takes over its names; the caller holds the lock.
func (d *Directory) put(a store.Agent) {
	d.unname(a.Key)
	d.register(a)
	d.catchUp(a.Key)
	d.byAddr[addressOf(a.Cloud, a.IP)] = a.Key
	for _, id := range []string{a.Assigned, a.ID} {
		if id != "" {
			d.byID[id] = a.Key
		}
	}
}

// unname removes the names of an agent; the caller holds the lock.
func (d *Directory) unname(key string) {
	old, ok := d.byKey[key]
	if !ok {
		return
	}
	if addr := addressOf(old.Cloud, old.IP); d.byAddr[addr] == key {
		delete(d.byAddr, addr)
	}
	for _, id := range []string{old.ID, old.Assigned} {
		if d.byID[id] == key {
			delete(d.byID, id)
		}
	}
}

// AdmitOnly makes Admit the only way into the register, so that an agent that is removed during its introduction does
// not return by it. Call it before the first report.
func (d *Directory) AdmitOnly() { d.closed = true }

// Join stores an agent, or its changes, and updates the register. An unchanged agent costs no write. The agent takes
// over the address and id of an agent that is offline, as a newly installed host must. If that agent is online, Join
// returns ErrTaken. It returns ErrElsewhere for the id of an agent of another area, and ErrMisleading for an id that
// reads as another host's address. The agent keeps its assigned id, whatever the caller passes; with an address it also
// takes over the id that was assigned to the host there. After AdmitOnly, Join returns store.ErrNotFound for an agent
// that is not in the register.
func (d *Directory) Join(ctx context.Context, a store.Agent, now time.Time) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	a.Assigned, a.SetLabels, a.SyncedIncarnation = d.assigned(a), d.setLabels(a.Key), d.syncedIncarnation(a.Key)
	known, err := d.mayJoin(a, now)
	if err != nil || known {
		return err
	}
	if _, there := d.ByKey(a.Key); d.closed && !there {
		return fmt.Errorf("cannot join agent %s: %w", a.Key, store.ErrNotFound)
	}
	if err := d.write(ctx, a, now); err != nil {
		return fmt.Errorf("cannot join agent %s: %w", a.Key, err)
	}
	d.putStored(a)
	return nil
}

// putStored updates the register with a stored row.
func (d *Directory) putStored(a store.Agent) {
	d.mu.Lock()
	d.put(a)
	d.mu.Unlock()
	d.changed(a.Key)
}

// write stores an agent. It changes the row of an agent in the register and never inserts it, because another server
// may have just removed it.
func (d *Directory) write(ctx context.Context, a store.Agent, now time.Time) error {
	if _, known := d.ByKey(a.Key); known {
		return d.agents.ChangeAgent(ctx, a, now)
	}
	return d.agents.PutAgent(ctx, a)
}

// Admit stores an agent, or its changes, whose right was proven elsewhere; put writes the row, whether or not the agent
// is known. An agent with Replaces takes the place of that agent, if that one is in the register and offline: it is the
// same host with an empty disk. No other agent gets a name of an agent in the register: Admit returns ErrKnown for the
// names of an offline agent. Otherwise Admit works as Join.
func (d *Directory) Admit(ctx context.Context, a store.Agent, now time.Time,
	put func(context.Context, store.Agent) error,
) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	a.Replaces = d.predecessor(a)
	a.Assigned, a.SyncedIncarnation = d.assigned(a), d.syncedIncarnation(a.Key)
	if _, err := d.mayJoin(a, now); err != nil {
		return err
	}
	if err := d.free(a); err != nil {
		return err
	}
	a.SetLabels = d.setLabels(cmp.Or(a.Replaces, a.Key))
	if d.unsettled(a, now) {
		return fmt.Errorf("cannot admit agent %s as %d:%s %q: %w", a.Key, a.Cloud, a.IP, a.ID, ErrUnsettled)
	}
	if err := put(ctx, a); err != nil {
		return fmt.Errorf("cannot admit agent %s: %w", a.Key, err)
	}
	if old := a.Replaces; old != "" {
		a.Replaces = ""
		d.mu.Lock()
		d.forget(old)
		d.mu.Unlock()
		d.changed(old)
	}
	d.putStored(a)
	return nil
}

// predecessor returns the key of the agent that a new agent replaces; empty if there is none.
func (d *Directory) predecessor(a store.Agent) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, joined := d.byKey[a.Key]
	if _, there := d.byKey[a.Replaces]; joined || !there {
		return ""
	}
	return a.Replaces
}

// free returns ErrKnown if another agent than the one that the agent replaces has one of its names.
func (d *Directory) free(a store.Agent) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, holder := range []string{d.byAddr[addressOf(a.Cloud, a.IP)], d.byID[a.ID]} {
		if holder != "" && holder != a.Key && holder != a.Replaces {
			return fmt.Errorf("cannot admit agent %s as %d:%s %q: %w (%s)", a.Key, a.Cloud, a.IP, a.ID, ErrKnown,
				holder)
		}
	}
	return nil
}

// unsettled reports whether the agent that this one replaces may still be reconnecting after the start of the server.
func (d *Directory) unsettled(a store.Agent, now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if now.Sub(d.started) > AwayAfter {
		return false
	}
	return a.Replaces != "" && d.links[a.Replaces].lastMessage.IsZero()
}

// Remove removes an agent from the register, after drop has removed it from the store. It returns store.ErrNotFound for
// an unknown agent.
func (d *Directory) Remove(ctx context.Context, key string, drop func(context.Context) error) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	if _, ok := d.ByKey(key); !ok {
		return fmt.Errorf("cannot remove agent %s: %w", key, store.ErrNotFound)
	}
	if err := drop(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.forget(key)
	d.mu.Unlock()
	d.changed(key)
	return nil
}

// assigned returns the id that was assigned to the agent, or to the agent that it replaces or whose address it takes
// over.
func (d *Directory) assigned(a store.Agent) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if old, ok := d.byKey[a.Key]; ok {
		return old.Assigned
	}
	if old, ok := d.byKey[a.Replaces]; ok {
		return old.Assigned
	}
	return d.byKey[d.byAddr[addressOf(a.Cloud, a.IP)]].Assigned
}

// Assign stores an id for the agent in addition to its own and its address, from now on; an empty id removes it. It
// returns ErrTaken for an id of another host, and ErrMisleading for an id that reads as another host's address. If the
// agent is not in the register, it returns store.ErrNotFound.
func (d *Directory) Assign(ctx context.Context, key, id string, now time.Time) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	d.mu.RLock()
	a, ok := d.byKey[key]
	holder, held := d.byKey[d.byID[id]]
	d.mu.RUnlock()
	switch {
	case !ok:
		return fmt.Errorf("cannot assign an id to agent %s: %w", key, store.ErrNotFound)
	case misleads(id, a):
		return fmt.Errorf("cannot assign id %q to agent %s: %w", id, key, ErrMisleading)
	case held && id != "" && holder.Key != key && addressOf(holder.Cloud, holder.IP) != addressOf(a.Cloud, a.IP):
		return fmt.Errorf("cannot assign id %q to agent %s: %w (%s)", id, key, ErrTaken, holder.Key)
	case a.Assigned == id || id != "" && a.ID == id && a.Assigned == "":
		return nil
	}
	a.Assigned = id
	if err := d.agents.ChangeAgent(ctx, a, now); err != nil {
		return fmt.Errorf("cannot assign an id to agent %s: %w", key, err)
	}
	d.putStored(a)
	return nil
}

// Reseal stores the sealing keys of an agent that change makes of the present ones. It returns store.ErrNotFound for an
// unknown agent, and errors of change.
func (d *Directory) Reseal(ctx context.Context, key string, change func(keys string) (string, error)) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	a, known := d.ByKey(key)
	if !known {
		return store.ErrNotFound
	}
	keys, err := change(a.Sealing)
	if err != nil || keys == a.Sealing {
		return err
	}
	a.Sealing = keys
	if err := d.agents.ChangeAgent(ctx, a, time.Time{}); err != nil {
		return err
	}
	d.putStored(a)
	return nil
}

// mayJoin reports whether the register already has exactly this agent. It returns an error if the agent may not join.
func (d *Directory) mayJoin(a store.Agent, now time.Time) (known bool, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	addr := addressOf(a.Cloud, a.IP)
	old, ok := d.byKey[a.Key]
	// An agent that joined with such an id before the check existed continues.
	if misleads(a.ID, a) && (old.ID != a.ID || addressOf(old.Cloud, old.IP) != addr) {
		return false, fmt.Errorf("cannot join agent %s as %d:%s %q: %w", a.Key, a.Cloud, a.IP, a.ID, ErrMisleading)
	}
	if holder, held := d.byKey[d.byID[a.ID]]; held && a.ID != "" && holder.Key != a.Key && holder.Cloud != a.Cloud {
		return false, fmt.Errorf("cannot join agent %s as %d:%s %q: %w (%s)", a.Key, a.Cloud, a.IP, a.ID, ErrElsewhere,
			holder.Key)
	}
	for _, holder := range []string{d.byAddr[addr], d.byID[a.ID], a.Replaces} {
		if holder != "" && holder != a.Key && !d.links[holder].presence(true, d.started, now).Vacant {
			return false, fmt.Errorf("cannot join agent %s as %d:%s %q: %w (%s)", a.Key, a.Cloud, a.IP, a.ID, ErrTaken,
				holder)
		}
	}
	named := d.byAddr[addr] == a.Key && (a.ID == "" || d.byID[a.ID] == a.Key)
	return ok && named && old.Created.Equal(a.Created) && cmp.Or(
		cmp.Compare(old.Cloud, a.Cloud), cmp.Compare(old.IP, a.IP), cmp.Compare(old.ID, a.ID),
		cmp.Compare(old.Build, a.Build), cmp.Compare(old.Sealing, a.Sealing),
		cmp.Compare(old.Name, a.Name), cmp.Compare(old.Place, a.Place)) == 0 && reflect.DeepEqual(old.Host, a.Host), nil
}

// Lookup finds an agent by cloud area and IP address, in any spelling of the address.
func (d *Directory) Lookup(cloud int, ip string) (store.Agent, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a, ok := d.byKey[d.byAddr[addressOf(cloud, ip)]]
	return a, ok
}

// LookupID finds an agent by "cloud:ip" (an IPv6 address may have brackets), or by its stable id. If the text is both
// an address and an id of different agents, the address counts, because an id must not hide the host with that address.
func (d *Directory) LookupID(id string) (store.Agent, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if addr, spelt := addressIn(id); spelt {
		if a, ok := d.byKey[d.byAddr[addr]]; ok {
			return a, true
		}
	}
	a, ok := d.byKey[d.byID[id]]
	return a, ok
}

// ByKey finds an agent by its public nkey.
func (d *Directory) ByKey(key string) (store.Agent, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a, ok := d.byKey[key]
	return a, ok
}

// RecordMessage records a message from the agent.
func (d *Directory) RecordMessage(key string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.relinked(key, d.links[key])
	l.lastMessage, l.lostAt = now, time.Time{}
	d.links[key] = l
	d.tell(key, false)
}

// RecordLinkLost records that the agent's link is lost. The agent is offline from now on, unless it was presumed
// offline already, and has to introduce itself again.
func (d *Directory) RecordLinkLost(key string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.links[key]; ok && !l.vacant(now) {
		d.links[key] = l.lose(now)
		d.tell(key, false)
	}
}

// Introduced stores the facts of an agent's introduction.
func (d *Directory) Introduced(key string, facts Facts, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.links[key]
	l.introduced, l.facts, l.since, l.lostAt = true, facts, now, time.Time{}
	d.links[key] = l
	delete(d.remarks, key)
	d.tell(key, true)
}

// Loaded stores how busy the host of an agent is. It ignores an unknown agent.
func (d *Directory) Loaded(key string, load Load) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, known := d.links[key]; known {
		l.load = load
		d.links[key] = l
		d.tell(key, false)
	}
}

// Trusts stores the digest of what an agent trusts. It ignores an unknown agent.
func (d *Directory) Trusts(key, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, joined := d.byKey[key]; !joined {
		return
	}
	if l := d.links[key]; l.trust != name {
		l.trust = name
		d.links[key] = l
	}
}

// Introduction reports whether the agent has introduced itself since its link was made and the server was started.
func (d *Directory) Introduction(key string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.links[key].introduced
}

// Presence returns the state of the agent's link.
func (d *Directory) Presence(key string, now time.Time) Presence {
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, joined := d.byKey[key]
	p := d.links[key].presence(joined, d.started, now)
	p.Untold = joined && d.unsynced(key)
	if !p.Away && d.displaced(key, now) { // nobody knows whether it was there until then
		p.Away, p.Since = true, laterOf(p.Since, d.rivals[key].Since)
	}
	p.Away = p.Away || p.Untold
	p.Settling = now.Sub(d.linked) < SettleTime
	return p
}

// Linked notes that the server has found its fabric, or lost a part of it: agents may be on their way back.
func (d *Directory) Linked(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.linked = now
}

// Online returns the keys of the agents that are not away.
func (d *Directory) Online(now time.Time) (keys []string) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for key := range d.byKey {
		if d.isOnline(key, now) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Count returns how many agents have joined, and how many of them are not away.
func (d *Directory) Count(now time.Time) (known, online int) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for key := range d.byKey {
		if d.isOnline(key, now) {
			online++
		}
	}
	return len(d.byKey), online
}

// isOnline reports whether an agent in the register is not away; the caller holds the lock.
func (d *Directory) isOnline(key string, now time.Time) bool {
	return !d.unsynced(key) && !d.displaced(key, now) && !d.links[key].presence(true, d.started, now).Away
}
