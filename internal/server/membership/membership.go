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
	// beat is how often a server says that it is there, goneAfter how long one that says nothing counts as there.
	beat      = 2 * time.Second
	goneAfter = 10 * time.Second
	// apartAfter is how long another one may be unheard before that is told: it is longer than a server that has died
	// stays in the list.
	apartAfter = 15 * time.Second
	// beatTime bounds one attempt.
	beatTime = 5 * time.Second
)

// Store keeps the list.
type Store interface {
	BeatServer(ctx context.Context, s store.Server, within time.Duration) ([]store.Server, error)
	DropServer(ctx context.Context, id string) error
}

// Config is what a List needs.
type Config struct {
	Store Store
	// ID and Name are those of this run of this server, Started is when it began.
	ID, Name string
	Started  time.Time
	// Keys returns the keys whose private halves are here.
	Keys func() []string
	// Hears reports whether another server is heard over the fabric, Agents returns the agents that are.
	Hears  func(id string) bool
	Agents func() []string
	Log    *slog.Logger
}

// List is the list of servers as this server read it last. Its methods may be called from any goroutine.
type List struct {
	cfg Config

	mu sync.Mutex
	// alive are the servers that are, this one among them, in the order of their start; silent are those of them that
	// are not heard.
	alive      []store.Server
	silent     map[string]silentServer
	lastLogged string
}

// silentServer is a server that is there and not heard.
type silentServer struct {
	since  time.Time
	agents map[string]bool // those that it hears; nil while it has not told
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
		err := l.look(attempt)
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

// look says that this server is there, and takes in who else is.
func (l *List) look(ctx context.Context) error {
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

// tell logs once that servers are apart, and once that they are not any more.
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

// Apart returns which servers are there and have not been heard for long; empty for none.
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

// apart returns the servers that have been silent for long, under the lock.
func (l *List) apart() []store.Server {
	return slices.DeleteFunc(slices.Clone(l.alive), func(s store.Server) bool {
		one, is := l.silent[s.ID]
		return !is || time.Since(one.since) < apartAfter
	})
}

// Ready returns why calls should go to others: where servers are apart, those do that hear the greater part of them,
// and of two equal parts the one with the server that was there first.
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

// Elsewhere reports whether an agent is heard, or may be, by a server that is there and is not heard here.
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

// Without reads the list, and returns the names of the servers that are there and do not hold a key.
func (l *List) Without(ctx context.Context, key string) ([]string, error) {
	if err := l.look(ctx); err != nil {
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
