// Package membership keeps the list of a fleet's servers in their shared database. Each server registers itself there
// with its keys and, while it does not hear another server over the fabric, with its connected agents. The package owns
// the consequences of a server that is registered but not heard; its caller tells it which servers are heard.
package membership

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/server/store"
)

const (
	// beat is the interval at which a server reports that it is online. goneAfter is how long a silent server counts as
	// online.
	beat      = 2 * time.Second
	goneAfter = 10 * time.Second
	// apartAfter is how long another server may be unheard before it is reported: longer than a dead server stays in
	// the list.
	apartAfter = 15 * time.Second
	// beatTime bounds one attempt.
	beatTime = 5 * time.Second
)

// Store keeps the list.
type Store interface {
	BeatServer(ctx context.Context, s store.Server, within time.Duration) ([]store.Server, error)
	DropServer(ctx context.Context, id string) error
	ListServers(ctx context.Context) ([]store.Server, error)
}

// Config holds the parts and settings of a List.
type Config struct {
	Store Store
	// ID and Name identify this run of this server; Started is its start.
	ID, Name string
	Started  time.Time
	// Keys returns the keys whose private halves are on this server.
	Keys func() []string
	// Hears reports whether this server hears another server over the fabric. Agents returns the agents that this
	// server hears.
	Hears  func(id string) bool
	Agents func() []string
	Log    *slog.Logger
}

// List is the list of servers as this server read it last. Its methods may be called from any goroutine.
type List struct {
	cfg Config

	mu sync.Mutex
	// alive are the online servers, including this one, in the order of their start. silent are the online servers that
	// this server does not hear.
	alive      []store.Server
	silent     map[string]silentServer
	lastLogged string
}

// silentServer is an online server that this server does not hear.
type silentServer struct {
	since  time.Time
	agents map[string]bool // the agents that report to it; nil until it has reported them
}

// New returns a list that is empty before Run.
func New(cfg Config) *List { return &List{cfg: cfg, silent: map[string]silentServer{}} }

// Run keeps this server in the list until ctx ends.
func (l *List) Run(ctx context.Context) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	failing := false
	for {
		attempt, cancel := context.WithTimeout(ctx, beatTime)
		err := l.beat(attempt)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			l.cfg.Log.WarnContext(ctx, "cannot register this server in the database, retrying", "error", err)
		}
		failing = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatTime)
			defer cancel()
			if err := l.cfg.Store.DropServer(last, l.cfg.ID); err != nil {
				l.cfg.Log.Debug("cannot remove this server from the database", "error", err)
			}
			return nil
		}
	}
}

// beat reports that this server is online, and reads the other servers.
func (l *List) beat(ctx context.Context) error {
	own := store.Server{ID: l.cfg.ID, Name: l.cfg.Name, Started: l.cfg.Started, Keys: l.cfg.Keys()}
	l.mu.Lock()
	alone := len(l.silent) > 0
	l.mu.Unlock()
	if alone {
		if own.Agents = l.cfg.Agents(); own.Agents == nil {
			own.Agents = []string{}
		}
	}
	there, err := l.cfg.Store.BeatServer(ctx, own, goneAfter)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.alive = there
	before := l.silent
	l.silent = map[string]silentServer{}
	for _, s := range there {
		if s.ID == l.cfg.ID || l.cfg.Hears(s.ID) {
			continue
		}
		one := silentServer{since: time.Now()}
		if known, ok := before[s.ID]; ok {
			one.since = known.since
		}
		if s.Agents != nil {
			one.agents = make(map[string]bool, len(s.Agents))
			for _, a := range s.Agents {
				one.agents[a] = true
			}
		}
		l.silent[s.ID] = one
	}
	l.mu.Unlock()
	l.tell(ctx)
	return nil
}

// tell logs once that servers cannot hear each other, and once that they can again.
func (l *List) tell(ctx context.Context) {
	text := l.Apart()
	l.mu.Lock()
	before := l.lastLogged
	l.lastLogged = text
	l.mu.Unlock()
	switch text {
	case before:
	case "":
		l.cfg.Log.InfoContext(ctx, "this server hears all servers of this database over the fabric")
	default:
		l.cfg.Log.ErrorContext(ctx, "servers share a database, but not a fabric", "reason", text)
	}
}

// Apart describes the online servers that have been unheard for apartAfter; empty if there are none.
func (l *List) Apart() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, s := range l.apart() {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"server %s uses the same database, but is not heard over the fabric: connect the brokers of all servers (cluster and routes of each, "+
			"with the port of cluster open between them), or configure the same brokers for all",
		strings.Join(names, ", "))
}

// apart returns the servers that have been silent for apartAfter; the caller holds the lock.
func (l *List) apart() []store.Server {
	return slices.DeleteFunc(slices.Clone(l.alive), func(s store.Server) bool {
		one, is := l.silent[s.ID]
		return !is || time.Since(one.since) < apartAfter
	})
}

// Ready returns the reason why another server should take the calls. If servers cannot hear each other, the larger part
// takes calls. If two parts have the same size, the part with the oldest server takes them.
func (l *List) Ready() error {
	text := l.Apart()
	if text == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	apart := l.apart()
	others := 2 * len(apart)
	first := slices.ContainsFunc(apart, func(s store.Server) bool { return s.ID == l.alive[0].ID })
	if others < len(l.alive) || others == len(l.alive) && !first {
		return nil
	}
	return fmt.Errorf("%s", text)
}

// Elsewhere reports whether an online server that this server does not hear hears an agent, or may hear it.
func (l *List) Elsewhere(agent string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.silent {
		if s.agents == nil || s.agents[agent] {
			return true
		}
	}
	return false
}

// Without reads the list, and returns the names of the online servers that do not hold a key.
func (l *List) Without(ctx context.Context, key string) ([]string, error) {
	if err := l.beat(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, s := range l.alive {
		if s.ID != l.cfg.ID && !slices.Contains(s.Keys, key) {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// Stopped returns the servers of the last days that do not run, the latest run of each: those that no server of the
// same name, which is that of the machine, has followed.
func (l *List) Stopped(ctx context.Context) ([]store.Server, error) {
	if err := l.beat(ctx); err != nil {
		return nil, err
	}
	all, err := l.cfg.Store.ListServers(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(all), func(s store.Server) bool {
		return slices.ContainsFunc(l.alive, func(a store.Server) bool { return a.ID == s.ID }) ||
			slices.ContainsFunc(all, func(a store.Server) bool { return a.Name == s.Name && a.Started.After(s.Beat) })
	}), nil
}
