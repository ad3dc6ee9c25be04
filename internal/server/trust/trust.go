// Package trust tells agents which servers to trust: the addresses of the fabric, its authorities and the keys of the
// servers. The keys themselves belong to package keyring.
package trust

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/fabric/broker"
	"drover/internal/server/fleet"
	"drover/internal/server/keyring"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// digestLife is how long the digest of an area's trust is cached.
const digestLife = time.Second

// Config is what Trust needs.
type Config struct {
	Keys      *keyring.Ring
	Directory *fleet.Directory
	// Fleet is the name of the fleet.
	Fleet string
	// URLs returns the URLs to which the agents of an area connect.
	URLs func(area int) []string
	// CA returns the authorities that verify the fabric, in PEM; empty without TLS.
	CA func() string
	// Issue makes the credentials of an agent for the fabric.
	Issue func(key string, area int) (jwt string, err error)
	// Now is the clock of the fleet.
	Now func() time.Time
	Log *slog.Logger
}

// Trust gives agents the current addresses, authorities and keys. Each report of an agent says what the agent trusts,
// so the server remembers nothing for offline agents. It is safe for concurrent use.
type Trust struct {
	cfg Config

	mu      sync.Mutex
	digests map[int]digest // by area
}

type digest struct {
	text string
	at   time.Time
}

// New returns the trust that a server gives.
func New(cfg Config) *Trust { return &Trust{cfg: cfg, digests: map[int]digest{}} }

// of returns the trust of an area, without the parts that differ by agent. It computes the digest before it reads the
// contents. If keys change in between, an agent has new contents with an old digest, and its next report corrects that.
func (t *Trust) of(area int) wire.Enrolment {
	keys, revision := t.cfg.Keys.Digest()
	e := wire.Enrolment{
		URLs: t.cfg.URLs(area), ManifestKeys: t.cfg.Keys.ManifestKeys(), SealingKeys: t.cfg.Keys.SealingKeys(),
		Fleet: t.cfg.Fleet, Cloud: area, CA: t.cfg.CA(),
	}
	e.Revision = revision
	urls := slices.Clone(e.URLs)
	slices.Sort(urls)
	sum := sha256.Sum256([]byte(strings.Join(urls, "\n") + "\n\n" + keys))
	e.Digest = hex.EncodeToString(sum[:8])
	return e
}

// Enrolment returns all that an agent needs to find and trust this server. If it does not use the current keys, it has
// no digest, so that the agent gets an update as soon as possible.
func (t *Trust) Enrolment(a store.Agent) (wire.Enrolment, error) {
	e := t.of(a.Cloud)
	signer := t.cfg.Keys.Signer(keyring.AgentSigner)
	jwt, err := t.cfg.Issue(a.Key, a.Cloud)
	if err != nil {
		return wire.Enrolment{}, err
	}
	e.JWT, e.IP, e.ID, e.Generation = jwt, a.IP, a.ID, 1
	if broker.IssuerOf(jwt) != signer || !t.cfg.Keys.Whole() {
		e.Digest = ""
	}
	return e, nil
}

// digest returns the digest of an area's trust.
func (t *Trust) digest(area int) string {
	now := time.Now()
	t.mu.Lock()
	d, ok := t.digests[area]
	t.mu.Unlock()
	if ok && now.Sub(d.at) < digestLife {
		return d.text
	}
	d = digest{text: t.of(area).Digest, at: now}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.digests[area] = d
	return d.text
}

// Changed drops the cached digests.
func (t *Trust) Changed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.digests)
}

// Renew returns the signed update of an agent's trust; nil if the agent has the latest. Every key of this
// server signs it, so that an agent that was away during a key rotation also accepts it.
func (t *Trust) Renew(ctx context.Context, agent string, held wire.TrustHeld) []byte {
	a, known := t.cfg.Directory.ByKey(agent)
	if !known {
		return nil
	}
	t.cfg.Directory.Trusts(agent, held.Digest)
	if held.Digest == t.digest(a.Cloud) || t.cfg.Keys.Behind(held.Revision) || !t.cfg.Keys.Whole() {
		return nil
	}
	e, err := t.Enrolment(a)
	if err != nil {
		t.cfg.Log.ErrorContext(ctx, "cannot issue the trust of an agent", "agent", agent, "error", err)
		return nil
	}
	e.Generation = held.Generation + 1
	sealed, err := wire.SealTrust(agent, e, t.cfg.Keys.ManifestKey(), t.cfg.Keys.Further()...)
	if err != nil {
		t.cfg.Log.ErrorContext(ctx, "cannot sign the trust of an agent", "agent", agent, "error", err)
		return nil
	}
	return sealed
}

// Reached returns the number of online agents, and how many of them trust the current keys, as far as this server
// knows.
func (t *Trust) Reached() (online, reached int) {
	now := t.cfg.Now()
	for a := range t.cfg.Directory.After(fleet.Place{}) {
		p := t.cfg.Directory.Presence(a.Key, now)
		if p.Away {
			continue
		}
		online++
		if p.Trust == t.digest(a.Cloud) {
			reached++
		}
	}
	return online, reached
}
