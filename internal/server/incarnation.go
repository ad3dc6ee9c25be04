package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"drover/internal/durable"
	"drover/internal/server/store"
)

// incarnations knows the incarnations of the database. A server notices by two means that the database was restored
// from a copy. The copy has another origin. Or it has not the mark that the server has left there, which is another one
// after each start and each end of the server.
type incarnations struct {
	s    *Server
	path string // of the record

	mu  sync.Mutex
	own incarnationRecord
	all []store.Incarnation
	// databaseRun is the run of the database's server.
	databaseRun string
}

// incarnationRecord is what a server keeps beside its keys.
type incarnationRecord struct {
	// Server names the mark of this server in the database.
	Server string `json:"server"`
	// Marks are the values that the mark may have: two if the server died while it left another one.
	Marks []string `json:"marks,omitempty"`
	// At is when the server left the mark, in Unix milliseconds.
	At int64 `json:"at,omitempty"`
}

const (
	// incarnationLook is how often a server looks whether the database is another one.
	incarnationLook = 2 * time.Second
	factMark        = "mark " // and the name of the server
)

// openIncarnations finds out whether the database was restored from a copy since this server had it open.
func (s *Server) openIncarnations(ctx context.Context) error {
	s.incarnations = &incarnations{s: s, path: filepath.Join(s.cfg.Dir, "incarnation")}
	i := s.incarnations
	i.own.Server = rand.Text()
	text, err := os.ReadFile(i.path)
	if err == nil {
		err = json.Unmarshal(text, &i.own)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read %s: %w: remove it, and the server takes the database for what it was", i.path, err)
	}
	if err := i.look(ctx); err != nil {
		return err
	}
	return i.mark(ctx)
}

// now returns the present incarnation.
func (i *incarnations) now() store.Incarnation {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.all[len(i.all)-1]
}

// list returns all incarnations, oldest first.
func (i *incarnations) list() []store.Incarnation {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.all)
}

// look reads the incarnations, and begins another one if the database was restored.
func (i *incarnations) look(ctx context.Context) error {
	db := i.s.store
	origin, run, err := db.Origin(ctx)
	if err != nil {
		return err
	}
	first := store.EncodeIncarnations([]store.Incarnation{{ID: rand.Text(), Origin: origin}})
	facts, err := db.Identify(ctx, map[string]string{store.FactIncarnations: first})
	if err != nil {
		return err
	}
	for {
		all, err := store.ReadIncarnations(facts[store.FactIncarnations])
		if err != nil {
			return err
		}
		reason := i.restored(all[len(all)-1], origin, facts[factMark+i.own.Server])
		if reason == "" {
			i.set(all, run)
			return nil
		}
		known, err := db.KnownUntil(ctx)
		if err != nil {
			return err
		}
		next := store.Incarnation{ID: rand.Text(), Origin: origin, Began: i.s.clock.Now().UnixMilli()}
		if !known.IsZero() {
			next.Known = known.UnixMilli()
		}
		before := facts[store.FactIncarnations]
		if _, err := db.SwapFact(ctx, store.FactIncarnations, before, store.EncodeIncarnations(append(all, next))); err != nil {
			return err
		}
		i.s.cfg.Log.WarnContext(ctx, "the database was restored from a copy: every agent tells anew what it has",
			"reason", reason, "known_until", known, "incarnation", next.ID)
		if facts, err = db.Identify(ctx, nil); err != nil {
			return err
		}
	}
}

// restored returns why the database is a copy of the one that the last incarnation describes; empty if it is not.
// Another server that has noticed it first has begun an incarnation after this server left its mark.
func (i *incarnations) restored(last store.Incarnation, origin, mark string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case last.Origin != origin:
		return "the database is another one than before: " + origin + ", not " + last.Origin
	case len(i.own.Marks) > 0 && last.Began <= i.own.At && !slices.Contains(i.own.Marks, mark):
		return "the database does not have what this server has written last"
	}
	return ""
}

// set takes over the incarnations. A database whose server was replaced or restarted may have lost the last changes:
// then all agents introduce themselves, and those of which it has lost something tell all.
func (i *incarnations) set(all []store.Incarnation, run string) {
	last := all[len(all)-1].ID
	i.mu.Lock()
	another := len(i.all) == 0 || i.all[len(i.all)-1].ID != last
	replaced := i.databaseRun != run
	i.all, i.databaseRun = all, run
	i.mu.Unlock()
	switch {
	case i.s.directory == nil: // the server is about to start
	case another:
		i.s.directory.SetIncarnation(last)
	case replaced:
		i.s.directory.Reintroduce()
	}
}

// mark leaves another mark in the database. The record has both marks until the database has the new one.
func (i *incarnations) mark(ctx context.Context) error {
	i.mu.Lock()
	record := i.own
	i.mu.Unlock()
	next := rand.Text()
	if len(record.Marks) > 1 {
		facts, err := i.s.store.Identify(ctx, nil)
		if err != nil {
			return err
		}
		record.Marks = []string{facts[factMark+record.Server]}
	}
	record.Marks, record.At = append(record.Marks, next), i.s.clock.Now().UnixMilli()
	if err := i.keep(record); err != nil {
		return err
	}
	if err := i.s.store.SetFact(ctx, factMark+record.Server, next); err != nil {
		return err
	}
	record.Marks = []string{next}
	return i.keep(record)
}

// keep stores the record.
func (i *incarnations) keep(record incarnationRecord) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if err := durable.Replace(i.path, text, 0o600); err != nil {
		return fmt.Errorf("cannot store what this server has written last: %w", err)
	}
	i.mu.Lock()
	i.own = record
	i.mu.Unlock()
	return nil
}

// run looks at the database again and again until ctx ends, and leaves a last mark. Only a database that other servers
// share can become another one meanwhile.
func (i *incarnations) run(ctx context.Context) error {
	ticker := time.NewTicker(incarnationLook)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			continue
		}
		i.recall(ctx)
		if !i.s.store.Shared() {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, incarnationLook)
		if err := i.look(attempt); err != nil {
			i.s.cfg.Log.DebugContext(ctx, "cannot look whether the database is another one", "error", err)
		}
		cancel()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), incarnationLook)
	defer cancel()
	if err := i.mark(last); err != nil {
		i.s.cfg.Log.Debug("cannot leave a mark in the database", "error", err)
	}
	return nil
}

const (
	// recallFor is how long after the begin of an incarnation a server pings the agents that have not told it all: as
	// long as the longest pause between two of their reports. mostRecalled is how many it pings at a time.
	recallFor    = 2 * time.Minute
	mostRecalled = 500
)

// recall pings agents that have not told the restored database what they have, so that they report at once.
func (i *incarnations) recall(ctx context.Context) {
	now := i.now()
	if now.Began == 0 || i.s.clock.Now().Sub(time.UnixMilli(now.Began)) > recallFor || !i.s.link.up() {
		return
	}
	keys := i.s.directory.Untold()
	var pings sync.WaitGroup
	for _, key := range keys[:min(len(keys), mostRecalled)] { // in no order: all come in their turn
		pings.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, incarnationLook)
			defer cancel()
			_ = i.s.link.Ping(ctx, key) // what counts is the report that follows
		})
	}
	pings.Wait()
}
