// Package keyring holds the keys by which agents trust a server, and rotates them while agents run. Each key passes
// through the stages next, present and former, so that no agent meets a key that it does not know. The package owns
// the stages, which all servers of a fleet share through the database, and the key files of this server. Its callers
// sign, issue and present certificates with the keys.
package keyring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/durable"
	"drover/internal/fabric"
	"drover/internal/pki"
)

// Keep is how long a former key is kept by default: as long as a host may be offline and still reconnect by itself.
const Keep = 180 * 24 * time.Hour

const (
	stateFile = "keys.json"
	// factName is the name of the state among the facts of the fleet.
	factName = "keys"
	// pollEvery is the interval at which changes by other servers are read.
	pollEvery = 10 * time.Second
)

// Facts are the values on which the servers of a fleet agree, in their database.
type Facts interface {
	// Identify stores the given facts that are not stored yet, and returns all stored facts.
	Identify(ctx context.Context, facts map[string]string) (map[string]string, error)
	SetFact(ctx context.Context, name, value string) error
	// SwapFact replaces a fact if it still has the value before. It returns false if the fact has another value.
	SwapFact(ctx context.Context, name, before, value string) (bool, error)
}

// Authorities are the server's own, whose files are their own business.
type Authorities interface {
	Authority() pki.Authority
	NewAuthority() (pki.Authority, error)
	Use(r pki.Roles) error
	Drop(fingerprint string) error
	// Held returns the fingerprints of the authorities whose keys are on this server.
	Held() []string
}

// Config holds the parts and settings of a Ring.
type Config struct {
	// Dir is the server's own directory, which must exist.
	Dir string
	// Authorities may be nil: then there are no authorities, as in drover dev.
	Authorities Authorities
	Now         func() time.Time
	Log         *slog.Logger
}

// Ring holds the keys. Its methods may be called from any goroutine.
type Ring struct {
	cfg Config
	// changed is called after each change of the valid keys, one call at a time.
	changed func()

	look chan struct{} // raised to read changes at once

	changing sync.Mutex // held through a change
	shared   string     // the last known text in the database; guarded by changing

	mu            sync.RWMutex
	facts         Facts // nil until Join
	state         State
	held          map[string]nkeys.KeyPair // nkeys by public key
	signer        *signer                  // of manifests
	latestSeen    int                      // the latest reported revision
	latestUnsaved int                      // the latest reported revision that the database does not have
}

// Open reads the keys of a directory, or makes the first ones. It blocks only for the disk, and needs no database.
func Open(cfg Config) (*Ring, error) {
	r := &Ring{cfg: cfg, changed: func() {}, signer: &signer{}, look: make(chan struct{}, 1)}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "broker"), 0o700); err != nil {
		return nil, fmt.Errorf("cannot open keys: %w", err)
	}
	state, err := r.readState()
	if err != nil {
		return nil, fmt.Errorf("cannot open keys: %w", err)
	}
	if err := r.apply(state); err != nil {
		return nil, fmt.Errorf("cannot open keys: %w", err)
	}
	return r, nil
}

// readState reads the last stored state, or the state of the first keys.
func (r *Ring) readState() (State, error) {
	var s State
	path := filepath.Join(r.cfg.Dir, stateFile)
	data, err := os.ReadFile(path)
	if err == nil {
		if json.Unmarshal(data, &s) != nil || !s.sound() {
			return s,
				fmt.Errorf("%s is damaged: restore the file from a backup, or remove it if the keys were never rotated",
					path)
		}
		return r.withMissing(s)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	return r.withMissing(State{Revision: 1, Keys: map[Kind][]Key{}})
}

// withMissing adds the first key of each kind that has none.
func (r *Ring) withMissing(s State) (State, error) {
	for _, kind := range nkeyKinds() {
		if len(s.Keys[kind]) > 0 {
			continue
		}
		key, err := fabric.LoadOrCreateKey(r.path(kind, ""), nkeyType(kind))
		if err != nil {
			return s, err
		}
		id, err := key.PublicKey()
		if err != nil {
			return s, err
		}
		s.Keys[kind] = []Key{{ID: id, Stage: Present, Since: r.cfg.Now().UTC()}}
	}
	if r.cfg.Authorities != nil && len(s.Keys[CA]) == 0 {
		a := r.cfg.Authorities.Authority()
		s.Keys[CA] = []Key{{ID: a.Fingerprint, PEM: a.PEM, Ends: a.Ends, Stage: Present, Since: r.cfg.Now().UTC()}}
	}
	return s, nil
}

// path returns the file of a key; an empty id means the first key, and "*" the files of all keys of the kind.
func (r *Ring) path(kind Kind, id string) string {
	base := string(kind)
	dir, ending := r.cfg.Dir, ".nkey"
	if kind == AgentSigner || kind == ProxySigner || kind == ServerSigner {
		dir, ending = filepath.Join(dir, "broker"), ".nk"
	}
	switch id {
	case "":
	case "*":
		base += "*"
	default:
		base += "-" + id
	}
	return filepath.Join(dir, base+ending)
}

// nkeyType returns the type of the nkeys of a kind.
func nkeyType(kind Kind) nkeys.PrefixByte {
	if kind == Sealing {
		return nkeys.PrefixByteCurve
	}
	return nkeys.PrefixByteAccount
}

// Join has the ring share its state with the other servers of the fleet from now on. Of this server's and theirs the
// later one counts.
func (r *Ring) Join(ctx context.Context, facts Facts) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	r.facts = facts
	r.mu.Unlock()
	return r.sync(ctx)
}

// Impose stores this server's state in a database, in place of any other state. Use it for a database whose keys are
// lost.
func (r *Ring) Impose(ctx context.Context, facts Facts) error {
	text, err := json.Marshal(r.State())
	if err != nil {
		return err
	}
	if err := facts.SetFact(ctx, factName, string(text)); err != nil {
		return fmt.Errorf("cannot store keys: %w", err)
	}
	return nil
}

// OnChange sets the function to call after a change of the valid keys. Call it before Run.
func (r *Ring) OnChange(fn func()) { r.changed = fn }

// Run drops former keys at their end, and reads the changes of other servers, until ctx ends.
func (r *Ring) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.look:
		case <-ctx.Done():
			return nil
		}
		if err := r.tick(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Log.WarnContext(ctx, "cannot read keys", "error", err)
		}
	}
}

func (r *Ring) tick(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.RLock()
	heard := r.latestSeen
	r.mu.RUnlock()
	if err := r.sync(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.latestUnsaved = heard
	if r.latestSeen == heard { // it counts until the next read, because the report may be false
		r.latestSeen = 0
	}
	r.mu.Unlock()
	next, dropped := r.State().expire(r.cfg.Now())
	if !dropped {
		return nil
	}
	return r.change(ctx, next)
}

// sync adopts the state of the database if it is later, or stores this server's state there if this one is later; the
// caller holds changing.
func (r *Ring) sync(ctx context.Context) error {
	if r.facts == nil {
		return nil
	}
	own := r.State()
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	facts, err := r.facts.Identify(ctx, map[string]string{factName: string(text)})
	if err != nil {
		return fmt.Errorf("cannot share keys: %w", err)
	}
	var theirs State
	if json.Unmarshal([]byte(facts[factName]), &theirs) != nil || !theirs.sound() {
		return errors.New("cannot share keys: the record of the keys in the database is damaged")
	}
	r.shared = facts[factName]
	switch {
	case theirs.Revision > own.Revision:
		return r.adopt(theirs)
	case theirs.Revision < own.Revision:
		return r.swap(ctx, string(text))
	case theirs.names() != own.names() && theirs.follows(own): // another server made its change first
		return r.adopt(theirs)
	case theirs.names() != own.names():
		return fmt.Errorf(
			"the keys in %s and the database belong to different fleets: import the keys of the database's fleet ('drover server keys'), or choose another database; keys here:\n%s\nkeys of the database:\n%s",
			r.cfg.Dir, own.names(), theirs.names())
	}
	return r.adoptImported(own)
}

// adoptImported starts to use keys that were imported after the start of the server.
func (r *Ring) adoptImported(s State) error {
	if r.Whole() {
		return nil
	}
	if err := r.apply(s); err != nil {
		return err
	}
	if r.Whole() {
		r.cfg.Log.Info("missing keys are available now")
		r.changed()
	}
	return nil
}

// change makes another state valid everywhere; the caller holds changing. It writes the database first, so that the
// state is valid for all servers or none.
func (r *Ring) change(ctx context.Context, s State) error {
	if r.facts != nil {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if err := r.swap(ctx, string(text)); err != nil {
			return err
		}
	}
	return r.adopt(s)
}

// swap replaces the last known text in the database; the caller holds changing.
func (r *Ring) swap(ctx context.Context, text string) error {
	ok, err := r.facts.SwapFact(ctx, factName, r.shared, text)
	if err != nil {
		return fmt.Errorf("cannot store keys: %w", err)
	}
	if !ok {
		return ErrChanged
	}
	r.shared = text
	return nil
}

// adopt makes another state valid on this server.
func (r *Ring) adopt(s State) error {
	if err := r.writeState(s); err != nil {
		return fmt.Errorf("cannot store keys: %w", err)
	}
	before := r.State()
	if err := r.apply(s); err != nil {
		return err
	}
	r.dropFiles(before, s)
	r.changed()
	return nil
}

// writeState writes the state, completely or not at all.
func (r *Ring) writeState(s State) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(r.cfg.Dir, stateFile), data, 0o600)
}

// State returns which keys there are.
func (r *Ring) State() State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state
}
