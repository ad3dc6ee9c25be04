// Package cluster connects a server with the other servers on its database or its fabric: it passes changes on, keeps
// the register in step with the database, and has some parts run on one server at a time.
package cluster

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/group"
	"drover/internal/idle"
	"drover/internal/server/bus"
	"drover/internal/server/dbclock"
	"drover/internal/server/engine"
	"drover/internal/server/fleet"
	"drover/internal/server/lease"
	"drover/internal/server/membership"
	"drover/internal/server/peers"
	"drover/internal/server/store"
)

// Store has the leases and the list of the servers.
type Store interface {
	lease.Store
	membership.Store
	// Shared reports whether other servers can be on the database.
	Shared() bool
}

// Config is what a Cluster needs.
type Config struct {
	Store Store
	// Build is the version of this server, and Database the id of its database.
	Build, Database string
	// Pairs returns the pairs of the servers among themselves.
	Pairs     func() ([]*frame.Pair, error)
	Directory *fleet.Directory
	Clock     *dbclock.Clock
	// Keys returns the ids of the keys that this server holds.
	Keys func() []string
	// Bus hears of the changes of other servers, and tells of those of this server.
	Bus *bus.Bus
	// TasksEnded is called with tasks of which another server has finished items, and Look when notices may have been
	// missed. Neither may block.
	TasksEnded func(ids []string)
	Look       func()
	// Removed makes the broker reject all agents that the database says were removed.
	Removed func(ctx context.Context) error
	Log     *slog.Logger
}

// Cluster connects a server with the others. A nil *Cluster belongs to a server without others; its methods then do
// nothing, or answer for that server alone.
type Cluster struct {
	cfg Config
	id  string
	hub *peers.Hub
	// members is nil if no other server can be on the database.
	members *membership.List
	// stale has the agents whose rows must be read again; all asks for the rows of all agents.
	mu    sync.Mutex
	stale map[string]bool
	all   bool
	wake  chan struct{}
}

const (
	// reloadEvery is the interval at which the register is read again, in case a notice was lost.
	reloadEvery = time.Minute
	// reloadAgain is the retry delay of a failed read.
	reloadAgain = time.Second
)

// New returns a cluster that knows no other server yet. Join and Run make it meet the others.
func New(cfg Config) *Cluster {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	c := &Cluster{cfg: cfg, id: rand.Text(), stale: map[string]bool{}, wake: make(chan struct{}, 1)}
	c.hub = peers.New(peers.Config{
		ID: c.id, Name: name, Build: cfg.Build, Database: cfg.Database, Pairs: cfg.Pairs, Presence: cfg.Directory,
		Now: cfg.Clock.Now, Log: cfg.Log,
		Listener: peers.Listener{
			Agents: c.reread,
			Tasks: func(ids []string) {
				cfg.TasksEnded(ids)
				cfg.Bus.Arrived(bus.Tasks, bus.Rollouts)
			},
			Events:    func() { cfg.Bus.Arrived(bus.Events) },
			Receivers: func() { cfg.Bus.Arrived(bus.Receivers) },
			Work:      func() { cfg.Bus.Arrived(bus.Work) },
			Missed:    c.resync,
			Left:      func() { cfg.Directory.Linked(cfg.Clock.Now()) },
		},
	})
	if cfg.Store.Shared() {
		c.members = membership.New(membership.Config{
			Store: cfg.Store, ID: c.id, Name: name, Started: cfg.Clock.Now(), Keys: cfg.Keys, Hears: c.hub.Hears,
			Agents: func() []string { return cfg.Directory.Online(cfg.Clock.Now()) }, Log: cfg.Log,
		})
	}
	cfg.Directory.Share(func(agent string) { c.hub.TellAgents(agent) })
	cfg.Bus.Share(func(topic bus.Topic) {
		switch topic { //nolint:exhaustive // pages of other servers learn of the rest by events and tasks
		case bus.Events:
			c.hub.TellEvents()
		case bus.Receivers:
			c.hub.TellReceivers()
		case bus.Work:
			c.hub.TellWork()
		}
	})
	return c
}

// Engines returns the engine's connection to the engines of other servers; nil if there are none.
func (c *Cluster) Engines() *engine.Shared {
	if c == nil {
		return nil
	}
	return &engine.Shared{Finished: c.hub.TellTasks, Turn: c.takeTurn, Elsewhere: c.elsewhere}
}

// elsewhere reports whether another server may reach an agent that this one does not.
func (c *Cluster) elsewhere(agent string) bool { return c.members != nil && c.members.Elsewhere(agent) }

// Without returns the names of the other servers that do not hold a key.
func (c *Cluster) Without(ctx context.Context, key string) ([]string, error) {
	if c == nil || c.members == nil {
		return nil, nil
	}
	return c.members.Without(ctx, key)
}

// Stopped returns the other servers of the last days that do not run.
func (c *Cluster) Stopped(ctx context.Context) ([]store.Server, error) {
	if c == nil || c.members == nil {
		return nil, nil
	}
	return c.members.Stopped(ctx)
}

// takeTurn reports whether this server should do a job that only one server does at a time.
func (c *Cluster) takeTurn(ctx context.Context, what string, every time.Duration) (bool, error) {
	return c.cfg.Store.TakeLease(ctx, what, c.id, every-every/10)
}

// UnderLease returns a function that runs a part on one server at a time.
func (c *Cluster) UnderLease(name string, run func(context.Context) error) func(context.Context) error {
	if c == nil {
		return run
	}
	return func(ctx context.Context) error {
		return lease.Alone(ctx, lease.Config{Store: c.cfg.Store, Name: name, Holder: c.id, Log: c.cfg.Log}, run)
	}
}

// reread makes run read the rows of agents again.
func (c *Cluster) reread(agents []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range agents {
		c.stale[key] = true
	}
	idle.Wake(c.wake)
}

// resync makes run read everything again.
func (c *Cluster) resync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = true
	idle.Wake(c.wake)
	c.cfg.Look()
	c.cfg.Bus.Arrived(bus.Topics()...)
}

// Run keeps the register and the clock in step with the database, until ctx ends.
func (c *Cluster) Run(ctx context.Context) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	parts := []group.Part{{Name: "register", Run: c.keepRegister}}
	if c.cfg.Store.Shared() {
		parts = append(parts,
			group.Part{Name: "clock", Run: c.cfg.Clock.Run}, group.Part{Name: "membership", Run: c.members.Run})
	}
	return group.Run(ctx, parts...)
}

func (c *Cluster) keepRegister(ctx context.Context) error {
	ticker := time.NewTicker(reloadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-c.wake:
		case <-ticker.C:
			c.mu.Lock()
			c.all = true
			c.mu.Unlock()
		case <-ctx.Done():
			return nil
		}
		if err := c.refresh(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Log.WarnContext(ctx, "cannot reload the register", "error", err)
			select {
			case <-time.After(reloadAgain):
			case <-ctx.Done():
			}
			idle.Wake(c.wake)
		}
	}
}

// refresh reads the rows that may have changed. After a failure they stay marked.
func (c *Cluster) refresh(ctx context.Context) error {
	c.mu.Lock()
	all, stale := c.all, c.stale
	c.all, c.stale = false, map[string]bool{}
	c.mu.Unlock()
	if err := c.read(ctx, all, stale); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = c.all || all
		maps.Copy(c.stale, stale)
		return err
	}
	return nil
}

func (c *Cluster) read(ctx context.Context, all bool, stale map[string]bool) error {
	if !all && len(stale) == 0 {
		return nil
	}
	if err := c.cfg.Removed(ctx); err != nil {
		return err
	}
	if all {
		return c.cfg.Directory.Load(ctx)
	}
	return c.cfg.Directory.Refresh(ctx, slices.Collect(maps.Keys(stale)))
}

// Join connects to the other servers over a link.
func (c *Cluster) Join(ctx context.Context, conn *fabric.Conn) error {
	if c == nil {
		return nil
	}
	return c.hub.Meet(ctx, conn)
}

// Announce notifies the other servers of changes until ctx ends.
func (c *Cluster) Announce(ctx context.Context, conn *fabric.Conn) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	return c.hub.Run(ctx, conn)
}

// Connected is called whenever a link is established.
func (c *Cluster) Connected() {
	if c != nil {
		c.hub.Connected()
	}
}

// AgentChanged notifies the other servers that an agent or a proxy was admitted or removed.
func (c *Cluster) AgentChanged(key string) {
	if c != nil {
		c.hub.TellAgents(key)
	}
}

// Ready returns the problem with other servers that makes this server not ready; nil if there is none.
func (c *Cluster) Ready() error {
	if c == nil {
		return nil
	}
	if err := c.hub.Foreign(); err != nil || c.members == nil {
		return err
	}
	return c.members.Ready()
}

// Notes returns warnings about servers that cannot reach each other.
func (c *Cluster) Notes() []string {
	if c == nil || c.members == nil {
		return nil
	}
	if text := c.members.Apart(); text != "" {
		return []string{text}
	}
	return nil
}

// Servers returns the number of servers that are online.
func (c *Cluster) Servers() int {
	if c == nil {
		return 1
	}
	return c.hub.Count()
}
