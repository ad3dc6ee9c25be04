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

// Keep is how long a former key is kept where nothing else is said: as long as that a host may be away and come back by
// itself.
const Keep = 180 * 24 * time.Hour

const (
	stateFile = "keys.json"
	// factName is what the state is called among the facts of the fleet.
	factName = "keys"
	// pollEvery is how often it is looked for what another server has changed.
	pollEvery = 10 * time.Second
)

// Facts are what the servers of a fleet agree on, in their database.
type Facts interface {
	// Identify stores those facts that are not stored yet, and returns all that are.
	Identify(ctx context.Context, facts map[string]string) (map[string]string, error)
	SetFact(ctx context.Context, name, value string) error
	// SwapFact replaces a fact that still has a value, and returns false where it has another one.
	SwapFact(ctx context.Context, name, before, value string) (bool, error)
}

// Authorities are the server's own, whose files are their own business.
type Authorities interface {
	Authority() pki.Authority
	NewAuthority() (pki.Authority, error)
	Use(r pki.Roles) error
	Drop(fingerprint string) error
	// Held returns the fingerprints of those whose keys are there.
	Held() []string
}

// Config is what a Ring needs.
type Config struct {
	// Dir is the server's own directory, which must exist.
	Dir string
	// Authorities may be nil: then there are none, as in drover dev.
	Authorities Authorities
	Now         func() time.Time
	Log         *slog.Logger
}

// Ring holds the keys. Its methods may be called from any goroutine.
type Ring struct {
	cfg Config
	// changed is called, one at a time, when other keys count.
	changed func()

	look chan struct{} // raised to have it looked at once for what was changed

	changing sync.Mutex // held through a change
	shared   string     // what the database held last, as a text; guarded by changing

	mu            sync.RWMutex
	facts         Facts // nil until Join
	state         State
	held          map[string]nkeys.KeyPair // nkeys by public key
	signer        *signer                  // of manifests
	latestSeen    int                      // the latest revision that somebody goes by
	latestUnsaved int                      // the latest of those that the database has not got
}

// Open reads the keys of a directory, or makes the first ones there. It blocks for the disk only, and needs no
// database.
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

// readState reads what was noted last, or what the first keys are.
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
	for _, kind := range []Kind{Manifest, AgentSigner} {
		if len(s.Keys[kind]) > 0 {
			continue
		}
		key, err := fabric.LoadOrCreateKey(r.path(kind, ""), nkeys.PrefixByteAccount)
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

// path is where a key is; without an id that of the first one.
func (r *Ring) path(kind Kind, id string) string {
	base := "manifest"
	dir, ending := r.cfg.Dir, ".nkey"
	if kind == AgentSigner {
		dir, base, ending = filepath.Join(dir, "broker"), "agent-signer", ".nk"
	}
	if id != "" {
		base += "-" + id
	}
	return filepath.Join(dir, base+ending)
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

// Impose has the state of this server count for a database, whatever that holds. It is for one whose keys are lost.
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

// OnChange sets what is called when other keys count. It is for before Run.
func (r *Ring) OnChange(fn func()) { r.changed = fn }

// Run drops former keys whose time has come, and takes up what other servers have changed, until ctx ends.
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
	if r.latestSeen == heard { // it counts until the next look: who says so may have made it up
		r.latestSeen = 0
	}
	r.mu.Unlock()
	next, dropped := r.State().expire(r.cfg.Now())
	if !dropped {
		return nil
	}
	return r.change(ctx, next)
}

// sync takes over the state of the database if it is later, and stores this server's there if that is; the caller holds
// changing.
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
	case theirs.names() != own.names() && theirs.follows(own): // this server has lost a race
		return r.adopt(theirs)
	case theirs.names() != own.names():
		return fmt.Errorf(
			"the keys in %s and the database belong to different fleets: import the keys of the database's fleet ('drover server keys'), or choose another database; keys here:\n%s\nkeys of the database:\n%s",
			r.cfg.Dir, own.names(), theirs.names())
	}
	return r.adoptImported(own)
}

// adoptImported has keys used that were brought to this server after it was started.
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

// change makes another state count, everywhere; the caller holds changing. The database has it first, so that it counts
// for all or none.
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

// swap replaces what the database was seen to hold; the caller holds changing.
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

// adopt makes another state count here.
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

// writeState writes the state, whole or not at all.
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
