// Package incarnation notices that the database was restored from a copy. It keeps the list of the incarnations of the
// database, and beside the keys of the server a record of what the server has left in the database. What follows for
// the agents belongs to others.
package incarnation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"drover/internal/durable"
	"drover/internal/server/store"
)

const (
	// interval is how often a server looks whether the database is another one.
	interval = 2 * time.Second
	factMark = "mark " // and the name of the server
)

// Store is the database.
type Store interface {
	store.Facts
	// Shared works as store.Cluster.
	Shared() bool
}

// Config is what a Watch needs.
type Config struct {
	Store Store
	// Path is the file of the server's own record.
	Path string
	// Now is the common time of all servers of the database.
	Now func() time.Time
	Log *slog.Logger
}

// Watch knows the incarnations of the database. A server notices by two means that the database was restored from a
// copy. The copy has another origin. Or it has not the mark that the server has left there, which is another one after
// each start and each end of the server. Any goroutine may call its methods.
type Watch struct {
	cfg Config

	mu  sync.Mutex
	own record
	all []store.Incarnation
	// databaseRun is the run of the database's server.
	databaseRun string
}

// record is what a server keeps beside its keys.
type record struct {
	// Server names the mark of this server in the database.
	Server string `json:"server"`
	// Marks are the values that the mark may have: two if the server died while it left another one.
	Marks []string `json:"marks,omitempty"`
	// At is when the server left the mark, in Unix milliseconds.
	At int64 `json:"at,omitempty"`
}

// Open finds out whether the database was restored from a copy since this server had it open.
func Open(ctx context.Context, cfg Config) (*Watch, error) {
	w := &Watch{cfg: cfg, own: record{Server: rand.Text()}}
	text, err := os.ReadFile(cfg.Path)
	if err == nil {
		err = json.Unmarshal(text, &w.own)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read %s: %w: remove it, and the server takes the database for what it was",
			cfg.Path, err)
	}
	if _, _, err := w.check(ctx); err != nil {
		return nil, err
	}
	if err := w.mark(ctx); err != nil { // on a full disk the former mark stays, here and in the database
		cfg.Log.WarnContext(ctx, "cannot leave a mark in the database", "error", err)
	}
	return w, nil
}

// Now returns the present incarnation.
func (w *Watch) Now() store.Incarnation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[len(w.all)-1]
}

// check reads the incarnations of the database, and begins another one if the database was restored. It reports whether
// the incarnation is another one than before, and whether the server of the database was replaced or restarted.
func (w *Watch) check(ctx context.Context) (another, replaced bool, err error) {
	db := w.cfg.Store
	origin, run, err := db.Origin(ctx)
	if err != nil {
		return false, false, err
	}
	first := store.EncodeIncarnations([]store.Incarnation{{ID: rand.Text(), Origin: origin}})
	facts, err := db.Identify(ctx, map[string]string{store.FactIncarnations: first})
	if err != nil {
		return false, false, err
	}
	for {
		all, err := store.ReadIncarnations(facts[store.FactIncarnations])
		if err != nil {
			return false, false, err
		}
		reason := w.restored(all[len(all)-1], origin, facts[factMark+w.own.Server])
		if reason == "" {
			another, replaced = w.set(all, run)
			return another, replaced, nil
		}
		if err := w.begin(ctx, facts[store.FactIncarnations], all, origin, reason); err != nil {
			return false, false, err
		}
		if facts, err = db.Identify(ctx, nil); err != nil {
			return false, false, err
		}
	}
}

// begin begins an incarnation after the others, unless another server has begun one. It begins later than all that this
// server knows, also by a clock that was set back.
func (w *Watch) begin(ctx context.Context, before string, all []store.Incarnation, origin, reason string) error {
	w.mu.Lock()
	at := max(w.cfg.Now().UnixMilli(), all[len(all)-1].Began+1, w.own.At+1)
	w.mu.Unlock()
	if err := w.cfg.Store.SkipCursors(ctx, at); err != nil {
		return err
	}
	next := store.Incarnation{ID: rand.Text(), Origin: origin, Began: at}
	begun, err := w.cfg.Store.SwapFact(ctx, store.FactIncarnations, before, store.EncodeIncarnations(append(all, next)))
	if begun {
		w.cfg.Log.WarnContext(ctx, "the database was restored from a copy: every agent tells anew what it has",
			"reason", reason, "incarnation", next.ID)
	}
	return err
}

// restored returns why the database is a copy of the one that the last incarnation describes; empty if it is not.
// Another server that has noticed it first has begun an incarnation after this server left its mark.
func (w *Watch) restored(last store.Incarnation, origin, mark string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case last.Origin != origin:
		return "the database is another one than before: " + origin + ", not " + last.Origin
	case len(w.own.Marks) > 0 && last.Began <= w.own.At && !slices.Contains(w.own.Marks, mark):
		return "the database does not have what this server has written last"
	}
	return ""
}

// set takes over the incarnations.
func (w *Watch) set(all []store.Incarnation, run string) (another, replaced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	another = len(w.all) == 0 || w.all[len(w.all)-1].ID != all[len(all)-1].ID
	replaced = w.databaseRun != run
	w.all, w.databaseRun = all, run
	return another, replaced
}

// mark leaves another mark in the database. The record has both marks until the database has the new one.
func (w *Watch) mark(ctx context.Context) error {
	w.mu.Lock()
	own := w.own
	w.mu.Unlock()
	next := rand.Text()
	if len(own.Marks) > 1 {
		facts, err := w.cfg.Store.Identify(ctx, nil)
		if err != nil {
			return err
		}
		own.Marks = []string{facts[factMark+own.Server]}
	}
	own.Marks, own.At = append(own.Marks, next), w.cfg.Now().UnixMilli()
	if err := w.keep(own); err != nil {
		return err
	}
	if err := w.cfg.Store.SetFact(ctx, factMark+own.Server, next); err != nil {
		return err
	}
	own.Marks = []string{next}
	return w.keep(own)
}

// keep stores the record.
func (w *Watch) keep(own record) error {
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	if err := durable.Replace(w.cfg.Path, text, 0o600); err != nil {
		return fmt.Errorf("cannot store what this server has written last: %w", err)
	}
	w.mu.Lock()
	w.own = own
	w.mu.Unlock()
	return nil
}

// Run looks at the database again and again until ctx ends, and leaves a last mark. Only a database that other servers
// share can become another one meanwhile.
func (w *Watch) Run(ctx context.Context, agents Agents, ping func(ctx context.Context, agent string)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			continue
		}
		w.recall(ctx, agents, ping)
		if w.cfg.Store.Shared() {
			w.again(ctx, agents)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), interval)
	defer cancel()
	if err := w.mark(last); err != nil {
		w.cfg.Log.Debug("cannot leave a mark in the database", "error", err)
	}
	return nil
}

// again looks, and leaves a mark in another incarnation. A database whose server was replaced or restarted may have
// lost the last changes: then all agents introduce themselves, and those of which it has lost something tell all.
func (w *Watch) again(ctx context.Context, agents Agents) {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	another, replaced, err := w.check(ctx)
	switch {
	case another:
		agents.SetIncarnation(w.Now().ID)
		err = w.mark(ctx)
	case replaced:
		agents.Reintroduce()
	}
	if err != nil {
		w.cfg.Log.DebugContext(ctx, "cannot look whether the database is another one", "error", err)
	}
}

// Agents are the agents of the fleet.
type Agents interface {
	// SetIncarnation sets the present incarnation. All agents have to introduce themselves again.
	SetIncarnation(id string)
	// Reintroduce makes all agents introduce themselves again.
	Reintroduce()
	// UnsyncedAgents returns the agents that have not told the present incarnation all that they have.
	UnsyncedAgents() []string
}

const (
	// recallFor is how long after the begin of an incarnation a server pings the agents that have not told it all: as
	// long as the longest pause between two of their reports. mostRecalled is how many it pings at a time.
	recallFor    = 2 * time.Minute
	mostRecalled = 500
)

// recall pings agents that have not told the restored database what they have, so that they report at once.
func (w *Watch) recall(ctx context.Context, agents Agents, ping func(ctx context.Context, agent string)) {
	now := w.Now()
	if now.Began == 0 || w.cfg.Now().Sub(time.UnixMilli(now.Began)) > recallFor {
		return
	}
	keys := agents.UnsyncedAgents()
	var pings sync.WaitGroup
	for _, key := range keys[:min(len(keys), mostRecalled)] { // in no order: all come in their turn
		pings.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, interval)
			defer cancel()
			ping(ctx, key)
		})
	}
	pings.Wait()
}
