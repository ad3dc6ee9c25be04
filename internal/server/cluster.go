package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/group"
	"drover/internal/server/dbclock"
	"drover/internal/server/engine"
	"drover/internal/server/lease"
	"drover/internal/server/membership"
	"drover/internal/server/pairs"
	"drover/internal/server/peers"
	"drover/internal/server/pulse"
	"drover/internal/server/store"
)

// cluster connects a server with the other servers on its database or its fabric. It is nil if there can be no others.
type cluster struct {
	s   *Server
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
	// clockBound is how far a clock may be off before the server reports it.
	clockBound = 30 * time.Second
)

// The facts about the fleet that its database holds.
const (
	factID      = "id"      // of the database, random
	factAccount = "account" // name of the fabric's account, which names the fleet
	factCursors = "cursors" // secret that seals the cursors of pages, random
)

// openClock opens the common clock of the servers.
func (s *Server) openClock(ctx context.Context) error {
	own := time.Now
	if s.cfg.Faults != nil {
		own = s.cfg.Faults.Wall
	}
	if !s.store.Shared() {
		s.clock = dbclock.Alone(own)
		return nil
	}
	clock, err := dbclock.New(ctx, dbclock.Config{Ask: s.store.Clock, Own: own, Log: s.cfg.Log})
	if err != nil {
		return err
	}
	clock.OnStep(func(by time.Duration) { s.directory.Shift(by) })
	s.clock = clock
	return nil
}

// identify rejects a database that belongs to other keys than this server's, and returns the database's id.
func (s *Server) identify(ctx context.Context) (id string, err error) {
	account, err := broker.AccountName(brokerDir(s.cfg.Dir))
	if err != nil {
		return "", err
	}
	s.fleet = account
	s.pairs = pairs.New(pairs.Config{Fleet: account, Keys: s.keys.SealingPairs, Sealing: s.sealingOf})
	stored, err := s.store.Identify(ctx, map[string]string{
		factID: rand.Text(), factAccount: account,
		factCursors: rand.Text(),
	})
	if err != nil {
		return "", err
	}
	if stored[factAccount] != account {
		return "", fmt.Errorf("the database belongs to fleet %s, but the keys in %s belong to fleet %s: "+
			"import the keys of the database's fleet here ('drover server keys export' on one of its servers, 'drover server keys import' into a new data directory here), "+
			"or choose another database; if the keys of the database are lost for good, 'drover server keys adopt' binds the database to the keys here, and every host joins again",
			stored[factAccount], s.cfg.Dir, account)
	}
	s.cursors = []byte(stored[factCursors])
	return stored[factID], nil
}

// openCluster prepares the connection with other servers. Call it after the creation of the directory and before that
// of the engine.
func (s *Server) openCluster(database string) {
	if !s.store.Shared() && len(s.cfg.NATS) == 0 && s.cfg.Cluster == "" {
		return
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	c := &cluster{s: s, id: rand.Text(), stale: map[string]bool{}, wake: make(chan struct{}, 1)}
	c.hub = peers.New(peers.Config{
		ID: c.id, Name: name, Build: s.cfg.Build, Database: database, Pairs: s.pairs.Servers, Presence: s.directory,
		Now: s.clock.Now, Log: s.cfg.Log,
		Listener: peers.Listener{
			Agents: c.reread, Tasks: func(ids []string) {
				s.engine.TasksEnded(ids)
				s.pulse.Changed(pulse.Tasks, pulse.Rollouts)
			},
			Events:    func() { s.engine.EventsArrived() },
			Receivers: func() { s.sender.Changed() }, Missed: c.resync,
			Work: func() {
				s.work.wake()
				s.pulse.Changed(pulse.Rollouts)
			},
			Left: func() { s.directory.Linked(s.clock.Now()) },
		},
	})
	if s.store.Shared() {
		c.members = membership.New(membership.Config{
			Store: s.store, ID: c.id, Name: name, Started: s.clock.Now(), Keys: s.keys.Held, Hears: c.hub.Hears,
			Agents: func() []string { return s.directory.Online(s.clock.Now()) }, Log: s.cfg.Log,
		})
	}
	s.directory.Share(func(agent string) { c.hub.TellAgents(agent) })
	s.cluster = c
}

// shared returns the engine's connection to other engines.
func (c *cluster) shared() *engine.Shared {
	if c == nil {
		return nil
	}
	return &engine.Shared{
		Finished: c.hub.TellTasks, Happened: c.hub.TellEvents, Turn: c.takeTurn,
		Elsewhere: c.elsewhere,
	}
}

// elsewhere reports whether another server may reach an agent that this one does not.
func (c *cluster) elsewhere(agent string) bool { return c.members != nil && c.members.Elsewhere(agent) }

// without returns the names of the other servers that do not hold a key.
func (c *cluster) without(ctx context.Context, key string) ([]string, error) {
	if c == nil || c.members == nil {
		return nil, nil
	}
	return c.members.Without(ctx, key)
}

// stopped returns the other servers of the last days that do not run.
func (c *cluster) stopped(ctx context.Context) ([]store.Server, error) {
	if c == nil || c.members == nil {
		return nil, nil
	}
	return c.members.Stopped(ctx)
}

// takeTurn reports whether this server should do a job that only one server does at a time.
func (c *cluster) takeTurn(ctx context.Context, what string, every time.Duration) (bool, error) {
	return c.s.store.TakeLease(ctx, what, c.id, every-every/10)
}

// underLease returns a function that runs a part on one server at a time.
func (c *cluster) underLease(name string, run func(context.Context) error) func(context.Context) error {
	if c == nil {
		return run
	}
	return func(ctx context.Context) error {
		return lease.Alone(ctx, lease.Config{Store: c.s.store, Name: name, Holder: c.id, Log: c.s.cfg.Log}, run)
	}
}

// reread makes run read the rows of agents again.
func (c *cluster) reread(agents []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range agents {
		c.stale[key] = true
	}
	idle.Wake(c.wake)
}

// resync makes run read everything again.
func (c *cluster) resync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = true
	idle.Wake(c.wake)
	c.s.engine.Look()
	c.s.sender.Changed()
	c.s.work.wake()
	c.s.pulse.Changed(pulse.Topics()...)
}

// run keeps the register and the clock in step with the database, until ctx ends.
func (c *cluster) run(ctx context.Context) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	parts := []group.Part{{Name: "register", Run: c.keepRegister}}
	if c.s.store.Shared() {
		parts = append(parts,
			group.Part{Name: "clock", Run: c.s.clock.Run}, group.Part{Name: "membership", Run: c.members.Run})
	}
	return group.Run(ctx, parts...)
}

func (c *cluster) keepRegister(ctx context.Context) error {
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
			c.s.cfg.Log.WarnContext(ctx, "cannot reload the register", "error", err)
			select {
			case <-time.After(reloadAgain):
			case <-ctx.Done():
			}
			idle.Wake(c.wake)
		}
	}
}

// refresh reads the rows that may have changed. After a failure they stay marked.
func (c *cluster) refresh(ctx context.Context) error {
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

func (c *cluster) read(ctx context.Context, all bool, stale map[string]bool) error {
	if !all && len(stale) == 0 {
		return nil
	}
	if err := c.s.refreshRevoked(ctx); err != nil {
		return err
	}
	if all {
		return c.s.directory.Load(ctx)
	}
	return c.s.directory.Refresh(ctx, slices.Collect(maps.Keys(stale)))
}

// join connects to the other servers over a link.
func (c *cluster) join(ctx context.Context, conn *fabric.Conn) error {
	if c == nil {
		return nil
	}
	return c.hub.Meet(ctx, conn)
}

// announce notifies the other servers of changes until ctx ends.
func (c *cluster) announce(ctx context.Context, conn *fabric.Conn) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	return c.hub.Run(ctx, conn)
}

// connected is called whenever a link is established.
func (c *cluster) connected() {
	if c != nil {
		c.hub.Connected()
	}
}

// rightsChanged notifies the other servers that a key was admitted or removed.
func (c *cluster) rightsChanged(key string) {
	if c != nil {
		c.hub.TellAgents(key)
	}
}

// receiversChanged notifies the other servers of a changed receiver.
func (c *cluster) receiversChanged() {
	if c != nil {
		c.hub.TellReceivers()
	}
}

// workChanged notifies the other servers of changed rollouts, schedules and breakers.
func (c *cluster) workChanged() {
	if c != nil {
		c.hub.TellWork()
	}
}

// ready returns the problem with other servers that makes this server not ready; nil if there is none.
func (c *cluster) ready() error {
	if c == nil {
		return nil
	}
	if err := c.hub.Foreign(); err != nil || c.members == nil {
		return err
	}
	return c.members.Ready()
}

// notes returns warnings about servers that cannot reach each other.
func (c *cluster) notes() []string {
	if c == nil || c.members == nil || c.members.Apart() == "" {
		return nil
	}
	return []string{c.members.Apart()}
}

// servers returns the number of servers that are online.
func (c *cluster) servers() int {
	if c == nil {
		return 1
	}
	return c.hub.Count()
}

// clockNotes returns warnings about wrong clocks.
func (s *Server) clockNotes() []string {
	var notes []string
	if skew := s.clock.Skew(); skew.Abs() >= clockBound {
		notes = append(notes,
			fmt.Sprintf("the clock of this server is %s the clock of the database, which times operations: correct it",
				aheadText(skew)))
	}
	if n, worst := s.directory.Unsteady(s.clock.Now(), clockBound); n > 0 {
		notes = append(notes,
			fmt.Sprintf("the clocks of %d hosts are off by more than %s; the worst is %s the server's clock", n,
				clockBound, aheadText(worst)))
	}
	return notes
}

// clocksOff counts the hosts whose clocks are wrong.
func (s *Server) clocksOff() int {
	n, _ := s.directory.Unsteady(s.clock.Now(), clockBound)
	return n
}

// aheadText describes how far a clock is ahead.
func aheadText(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Second).String() + " behind"
	}
	return ahead.Round(time.Second).String() + " ahead of"
}
