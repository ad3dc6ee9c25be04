// Package roll keeps the list of a fleet's servers in their shared database. Each server registers itself there with
// its keys and, while it does not hear another server over the fabric, with its connected agents. The package owns
// the consequences of a server that is registered but not heard; its caller tells it which servers are heard.
package roll

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
	// stays on the roll.
	apartAfter = 15 * time.Second
	// beatTime bounds one attempt.
	beatTime = 5 * time.Second
)

// Store keeps the roll.
type Store interface {
	BeatServer(ctx context.Context, s store.Server, within time.Duration) ([]store.Server, error)
	DropServer(ctx context.Context, id string) error
}

// Config is what a Roll needs.
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

// Roll is the roll as this server has seen it last. Its methods may be called from any goroutine.
type Roll struct {
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

// New returns a roll that knows of nobody before Run.
func New(cfg Config) *Roll { return &Roll{cfg: cfg, silent: map[string]silentServer{}} }

// Run keeps this server on the roll until ctx ends.
func (r *Roll) Run(ctx context.Context) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	failing := false
	for {
		attempt, cancel := context.WithTimeout(ctx, beatTime)
		err := r.look(attempt)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			r.cfg.Log.WarnContext(ctx, "cannot register this server in the database, retrying", "error", err)
		}
		failing = err != nil
		select {
		case <-ticker.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatTime)
			defer cancel()
			if err := r.cfg.Store.DropServer(last, r.cfg.ID); err != nil {
				r.cfg.Log.Debug("cannot remove this server from the database", "error", err)
			}
			return nil
		}
	}
}

// look says that this server is there, and takes in who else is.
func (r *Roll) look(ctx context.Context) error {
	own := store.Server{ID: r.cfg.ID, Name: r.cfg.Name, Started: r.cfg.Started, Keys: r.cfg.Keys()}
	r.mu.Lock()
	alone := len(r.silent) > 0
	r.mu.Unlock()
	if alone {
		if own.Agents = r.cfg.Agents(); own.Agents == nil {
			own.Agents = []string{}
		}
	}
	there, err := r.cfg.Store.BeatServer(ctx, own, goneAfter)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.alive = there
	before := r.silent
	r.silent = map[string]silentServer{}
	for _, s := range there {
		if s.ID == r.cfg.ID || r.cfg.Hears(s.ID) {
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
		r.silent[s.ID] = one
	}
	r.mu.Unlock()
	r.tell(ctx)
	return nil
}

// tell logs once that servers are apart, and once that they are not any more.
func (r *Roll) tell(ctx context.Context) {
	text := r.Apart()
	r.mu.Lock()
	before := r.lastLogged
	r.lastLogged = text
	r.mu.Unlock()
	switch text {
	case before:
	case "":
		r.cfg.Log.InfoContext(ctx, "this server hears all servers of this database over the fabric")
	default:
		r.cfg.Log.ErrorContext(ctx, "servers share a database, but not a fabric", "reason", text)
	}
}

// Apart returns which servers are there and have not been heard for long; empty for none.
func (r *Roll) Apart() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, s := range r.apart() {
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
func (r *Roll) apart() []store.Server {
	return slices.DeleteFunc(slices.Clone(r.alive), func(s store.Server) bool {
		one, is := r.silent[s.ID]
		return !is || time.Since(one.since) < apartAfter
	})
}

// Ready returns why calls should go to others: where servers are apart, those do that hear the greater part of them,
// and of two equal parts the one with the server that was there first.
func (r *Roll) Ready() error {
	text := r.Apart()
	if text == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	apart := r.apart()
	others := 2 * len(apart)
	first := slices.ContainsFunc(apart, func(s store.Server) bool { return s.ID == r.alive[0].ID })
	if others < len(r.alive) || others == len(r.alive) && !first {
		return nil
	}
	return fmt.Errorf("%s", text)
}

// Elsewhere reports whether an agent is heard, or may be, by a server that is there and is not heard here.
func (r *Roll) Elsewhere(agent string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.silent {
		if s.agents == nil || s.agents[agent] {
			return true
		}
	}
	return false
}

// Without looks at the roll, and returns the names of the servers that are there and do not hold a key.
func (r *Roll) Without(ctx context.Context, key string) ([]string, error) {
	if err := r.look(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, s := range r.alive {
		if s.ID != r.cfg.ID && !slices.Contains(s.Keys, key) {
			names = append(names, s.Name)
		}
	}
	return names, nil
}
