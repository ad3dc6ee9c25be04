package keyring

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"drover/internal/idle"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/pki"
)

// apply makes this server sign, issue and present with the keys of a state.
func (r *Ring) apply(s State) error {
	held, err := r.readHeld()
	if err != nil {
		return err
	}
	manifest, err := best(s, Manifest, held)
	if err != nil {
		return err
	}
	for _, kind := range nkeyKinds() {
		if _, err := best(s, kind, held); err != nil {
			return err
		}
	}
	if err := r.useAuthorities(s); err != nil {
		return err
	}
	r.signer.use(manifest)
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.state.Revision == s.Revision
	r.state, r.held = s, held
	if told {
		return nil
	}
	for _, kind := range nkeyKinds() {
		if k, ok := s.in(kind, Present); ok && held[k.ID] == nil {
			r.cfg.Log.Error("present key is not on this server, using an older key: import the keys of another server",
				"kind", kind, "key", k.ID)
		}
	}
	return nil
}

// readHeld reads the key files, whatever their names.
func (r *Ring) readHeld() (map[string]nkeys.KeyPair, error) {
	held := map[string]nkeys.KeyPair{}
	for _, kind := range nkeyKinds() {
		paths, err := filepath.Glob(r.path(kind, "*"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			key, err := fabric.LoadOrCreateKey(path, nkeyType(kind))
			if err != nil {
				return nil, err
			}
			id, err := key.PublicKey()
			if err != nil {
				return nil, err
			}
			held[id] = key
		}
	}
	return held, nil
}

// best returns the key of a kind to use: the present one, else the latest former key on this server.
func best(s State, kind Kind, held map[string]nkeys.KeyPair) (nkeys.KeyPair, error) {
	for _, stage := range []Stage{Present, Former} {
		for _, k := range slices.Backward(s.Keys[kind]) {
			if k.Stage == stage && held[k.ID] != nil {
				return held[k.ID], nil
			}
		}
	}
	present, _ := s.in(kind, Present)
	return nil,
		fmt.Errorf(
			"this server has no %s key that agents know: the present key is %s; import the keys of another server",
			kind, present.ID)
}

// useAuthorities assigns the authorities their roles. If the present one is not on this server, the previous one stays
// in use.
func (r *Ring) useAuthorities(s State) error {
	if r.cfg.Authorities == nil {
		return nil
	}
	roles := pki.Roles{}
	for _, k := range s.Keys[CA] {
		roles.Trusted = append(roles.Trusted, k.PEM)
		switch k.Stage {
		case Present:
			roles.Present = k.ID
		case Former:
			roles.Former = append(roles.Former, k.ID)
		case Next:
		}
	}
	err := r.cfg.Authorities.Use(roles)
	if err == nil {
		return nil
	}
	own := r.cfg.Authorities.Authority().Fingerprint
	if own == roles.Present || !slices.Contains(roles.Former, own) {
		return err
	}
	r.cfg.Log.Error(
		"present authority is not on this server, using an older authority: import the keys of another server",
		"fingerprint", roles.Present, "error", err)
	roles.Present = own
	return r.cfg.Authorities.Use(roles)
}

// dropFiles removes the files of keys that a later state no longer has. It removes only files with the name of their
// key. When the first key of a kind is dropped, the present key overwrites its file, so that nothing creates another
// first key.
func (r *Ring) dropFiles(before, after State) {
	for kind, list := range before.Keys {
		for _, k := range list {
			if slices.ContainsFunc(after.Keys[kind], func(a Key) bool { return a.ID == k.ID }) {
				continue
			}
			if err := r.dropFile(kind, k.ID, after); err != nil {
				r.cfg.Log.Error("cannot remove the file of a dropped key", "kind", kind, "key", k.ID, "error", err)
			}
		}
	}
}

func (r *Ring) dropFile(kind Kind, id string, after State) error {
	if kind == CA {
		if r.cfg.Authorities == nil {
			return nil
		}
		return r.cfg.Authorities.Drop(id)
	}
	if err := os.Remove(r.path(kind, id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	present, ok := after.in(kind, Present)
	if !ok {
		return nil
	}
	// The dropped key is in the file of the first key, which the present key overwrites; or it was never on this
	// server.
	first, err := idOf(r.path(kind, ""), nkeyType(kind))
	if errors.Is(err, fs.ErrNotExist) || err == nil && first != id {
		return nil
	}
	if err != nil {
		return err
	}
	err = os.Rename(r.path(kind, present.ID), r.path(kind, ""))
	if errors.Is(err, fs.ErrNotExist) { // the present key is not on this server
		return nil
	}
	return err
}

// idOf reads the public half of the key in a file, which must exist.
func idOf(path string, want nkeys.PrefixByte) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	pair, err := fabric.LoadOrCreateKey(path, want)
	if err != nil {
		return "", err
	}
	return pair.PublicKey()
}

// ManifestKey returns the key pair that signs manifests. The pair switches to another key by itself.
func (r *Ring) ManifestKey() nkeys.KeyPair { return r.signer }

// ManifestKeys returns the public keys that agents are to take manifests from, in a fixed order.
func (r *Ring) ManifestKeys() []string { return r.ids(Manifest) }

// SealingKeys returns the public keys of the fleet that agents are to open frames with. The present key is the first,
// with which agents also seal. The others have a fixed order.
func (r *Ring) SealingKeys() []string {
	present, _ := r.State().in(Sealing, Present)
	ids := slices.DeleteFunc(r.ids(Sealing), func(id string) bool { return id == present.ID })
	return append([]string{present.ID}, ids...)
}

// SealingPairs returns the sealing keys on this server: the one to seal with, and then the others.
func (r *Ring) SealingPairs() []nkeys.KeyPair { return r.Pairs(Sealing) }

// Pairs returns the keys of a kind on this server: the one in use, and then the others. The kind is not CA.
func (r *Ring) Pairs(kind Kind) []nkeys.KeyPair {
	r.mu.RLock()
	defer r.mu.RUnlock()
	own, _ := best(r.state, kind, r.held) // cannot fail: apply has found the key
	pairs := []nkeys.KeyPair{own}
	for _, k := range r.state.Keys[kind] {
		if pair := r.held[k.ID]; pair != nil && pair != own {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// Secrets returns secrets of 32 bytes for a purpose, which only servers of the fleet can derive: one for each sealing
// key on this server. Encrypt with the first, and decrypt with any.
func (r *Ring) Secrets(purpose string) ([][]byte, error) {
	var secrets [][]byte
	for _, pair := range r.SealingPairs() {
		secret, err := derive(pair, purpose)
		if err != nil {
			return nil, fmt.Errorf("cannot derive %s: %w", purpose, err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

func derive(pair nkeys.KeyPair, purpose string) ([]byte, error) {
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	_, raw, err := nkeys.DecodeSeed(seed)
	if err != nil {
		return nil, err
	}
	defer clear(raw)
	return hkdf.Key(sha256.New, raw, nil, "drover "+purpose, sha256.Size)
}

func (r *Ring) ids(kind Kind) []string {
	var ids []string
	for _, k := range r.State().Keys[kind] {
		ids = append(ids, k.ID)
	}
	slices.Sort(ids)
	return ids
}

// Further returns the other manifest keys on this server, to sign for agents that know only an old key.
func (r *Ring) Further() []nkeys.KeyPair {
	r.mu.RLock()
	defer r.mu.RUnlock()
	own, _ := r.signer.PublicKey()
	var pairs []nkeys.KeyPair
	for _, k := range r.state.Keys[Manifest] {
		if pair := r.held[k.ID]; pair != nil && k.ID != own {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// Signers returns the key pair of a kind that issues tokens, and the public keys of all whose tokens count. The kind is
// one of the signers.
func (r *Ring) Signers(kind Kind) (issues nkeys.KeyPair, counting []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	issues, _ = best(r.state, kind, r.held) // cannot fail: apply has found the key
	for _, k := range r.state.Keys[kind] {
		counting = append(counting, k.ID)
	}
	return issues, counting
}

// Held returns the names of the keys whose private halves are on this server, in no order. It reads the disk, as they
// may be brought here at any time.
func (r *Ring) Held() (ids []string) {
	held, err := r.readHeld()
	if err != nil {
		r.cfg.Log.Warn("cannot reload keys", "error", err)
	}
	for id := range held {
		ids = append(ids, id)
	}
	if r.cfg.Authorities != nil {
		ids = append(ids, r.cfg.Authorities.Held()...)
	}
	return ids
}

// Whole reports whether every present key is on this server, so that it may update the trust of agents.
func (r *Ring) Whole() bool { return len(r.Missing()) == 0 }

// Missing returns the kinds whose present key is not on this server.
func (r *Ring) Missing() (kinds []Kind) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, kind := range nkeyKinds() {
		if k, ok := r.state.in(kind, Present); !ok || r.held[k.ID] == nil {
			kinds = append(kinds, kind)
		}
	}
	if r.cfg.Authorities == nil {
		return kinds
	}
	if k, ok := r.state.in(CA, Present); !ok || r.cfg.Authorities.Authority().Fingerprint != k.ID {
		kinds = append(kinds, CA)
	}
	return kinds
}

// Signer returns the public key of a kind that is to issue tokens, whether it is held here or not.
func (r *Ring) Signer(kind Kind) string {
	k, _ := r.State().in(kind, Present)
	return k.ID
}

// Behind reports whether an agent or server uses a later revision of the keys than this server knows. If so, it makes
// Run read the database now. If the database does not have that revision either, for example after a restore, Behind
// ignores that revision from then on.
func (r *Ring) Behind(revision int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if revision <= max(r.state.Revision, r.latestUnsaved) {
		return false
	}
	r.latestSeen = max(r.latestSeen, revision)
	idle.Wake(r.look)
	return true
}

// Digest returns a digest of the keys and authorities for agents, and the revision of the keys. Equal digests mean
// equal contents.
func (r *Ring) Digest() (text string, revision int) {
	s := r.State()
	var parts []string
	for _, kind := range Kinds() {
		for _, k := range s.Keys[kind] {
			// Agents get tokens of their signer, and nothing of other signers.
			if kind == AgentSigner && k.Stage != Present || kind == ProxySigner || kind == ServerSigner {
				continue
			}
			part := string(kind) + " " + k.ID
			if kind == Sealing && k.Stage == Present { // agents seal with this one
				part += " present"
			}
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n"), s.Revision
}

// signer is a key pair that can be replaced.
type signer struct{ current atomic.Pointer[nkeys.KeyPair] }

func (s *signer) use(pair nkeys.KeyPair) {
	pair = fabric.CachedKey(pair)
	s.current.Store(&pair)
}

func (s *signer) pair() nkeys.KeyPair { return *s.current.Load() }

// errSealed is returned by the methods that would reveal the private key.
var errSealed = errors.New("the key is for signing only")

// PublicKey returns the encoded public half.
func (s *signer) PublicKey() (string, error) { return s.pair().PublicKey() }

// Sign signs the input.
func (s *signer) Sign(input []byte) ([]byte, error) { return s.pair().Sign(input) }

// Verify verifies a signature.
func (s *signer) Verify(input, sig []byte) error { return s.pair().Verify(input, sig) }

// Seed gives nothing away, as all that follows.
func (s *signer) Seed() ([]byte, error) { return nil, errSealed }

// PrivateKey gives nothing away.
func (s *signer) PrivateKey() ([]byte, error) { return nil, errSealed }

// Wipe does nothing: the key is in use.
func (s *signer) Wipe() {}

// Seal is not for this kind of key.
func (s *signer) Seal([]byte, string) ([]byte, error) { return nil, errSealed }

// SealWithRand is not for this kind of key.
func (s *signer) SealWithRand([]byte, string, io.Reader) ([]byte, error) { return nil, errSealed }

// Open is not for this kind of key.
func (s *signer) Open([]byte, string) ([]byte, error) { return nil, errSealed }
