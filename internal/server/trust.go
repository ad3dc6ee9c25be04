package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/fabric/broker"
	"drover/internal/idle"
	"drover/internal/server/fleet"
	"drover/internal/server/keyring"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// digestLife is how long the digest of an area's trust is cached.
const digestLife = time.Second

// trust gives agents the current addresses, authorities and keys. Each report of an agent says what the agent trusts,
// so the server remembers nothing for offline agents.
type trust struct {
	s *Server

	mu      sync.Mutex
	digests map[int]digest // by area
}

type digest struct {
	text string
	at   time.Time
}

func newTrust(s *Server) *trust {
	return &trust{s: s, digests: map[int]digest{}}
}

// of returns the trust of an area, without the parts that differ by agent. It computes the digest before it reads the
// contents. If keys change in between, an agent has new contents with an old digest, and its next report corrects that.
func (t *trust) of(area int) wire.Enrolment {
	keys, revision := t.s.keys.Digest()
	e := wire.Enrolment{
		URLs: t.s.addresses(area), ManifestKeys: t.s.keys.ManifestKeys(), SealingKeys: t.s.keys.SealingKeys(),
		Fleet: t.s.fleet, Cloud: area,
	}
	e.Revision = revision
	if t.s.joining != nil {
		e.CA = t.s.joining.fabric.CA()
	}
	urls := slices.Clone(e.URLs)
	slices.Sort(urls)
	sum := sha256.Sum256([]byte(strings.Join(urls, "\n") + "\n\n" + keys))
	e.Digest = hex.EncodeToString(sum[:8])
	return e
}

// enrolment returns all that an agent needs to find and trust this server. If it does not use the current keys, it has
// no digest, so that the agent gets an update as soon as possible.
func (t *trust) enrolment(a store.Agent) (wire.Enrolment, error) {
	e := t.of(a.Cloud)
	signer := t.s.keys.Signer(keyring.AgentSigner)
	jwt, err := t.s.broker.IssueAgent(a.Key, a.Cloud)
	if err != nil {
		return wire.Enrolment{}, err
	}
	e.JWT, e.IP, e.ID, e.Generation = jwt, a.IP, a.ID, 1
	if broker.IssuerOf(jwt) != signer || !t.s.keys.Whole() {
		e.Digest = ""
	}
	return e, nil
}

// digest returns the digest of an area's trust.
func (t *trust) digest(area int) string {
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

// changed drops the cached digests.
func (t *trust) changed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.digests)
}

// renew returns the signed update of an agent's trust; nil if the agent has the latest. Every key of this
// server signs it, so that an agent that was away during a key rotation also accepts it.
func (t *trust) renew(ctx context.Context, agent string, held wire.TrustHeld) []byte {
	a, known := t.s.directory.ByKey(agent)
	if !known {
		return nil
	}
	t.s.directory.Trusts(agent, held.Digest)
	if held.Digest == t.digest(a.Cloud) || t.s.keys.Behind(held.Revision) || !t.s.keys.Whole() {
		return nil
	}
	e, err := t.enrolment(a)
	if err != nil {
		t.s.cfg.Log.ErrorContext(ctx, "cannot issue the trust of an agent", "agent", agent, "error", err)
		return nil
	}
	e.Generation = held.Generation + 1
	sealed, err := wire.SealTrust(agent, e, t.s.keys.ManifestKey(), t.s.keys.Further()...)
	if err != nil {
		t.s.cfg.Log.ErrorContext(ctx, "cannot sign the trust of an agent", "agent", agent, "error", err)
		return nil
	}
	return sealed
}

// reached returns the number of online agents, and how many of them trust the current keys, as far as this server
// knows.
func (t *trust) reached() (online, reached int) {
	now := time.Now()
	for a := range t.s.directory.After(fleet.Place{}) {
		p := t.s.directory.Presence(a.Key, now)
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

// openKeys opens the keys by which agents trust this server, and the parts of the listeners.
func (s *Server) openKeys() error {
	s.trust = newTrust(s)
	var err error
	if s.joining, err = openJoining(s.cfg); err != nil {
		return err
	}
	cfg := keyring.Config{Dir: s.cfg.Dir, Now: time.Now, Log: s.cfg.Log}
	if s.joining != nil {
		cfg.Authorities = s.joining.fabric
	}
	s.keys, err = keyring.Open(cfg)
	return err
}

// openTickets opens the keys of TLS sessions with the embedded broker; nil without TLS.
func (s *Server) openTickets(ctx context.Context) (*keyring.Tickets, error) {
	if s.joining == nil {
		return nil, nil //nolint:nilnil // nil is a missing part
	}
	return keyring.OpenTickets(ctx, keyring.TicketConfig{
		Facts: s.store, Secrets: func() ([][]byte, error) { return s.keys.Secrets("keys of session tickets") },
		Revision: func() int { return s.keys.State().Revision },
		Now:      s.clock.Now, Log: s.cfg.Log,
	})
}

// shareKeys synchronizes the keys with all servers on the database.
func (s *Server) shareKeys(ctx context.Context) error {
	s.keys.OnChange(s.keysChanged)
	return s.keys.Join(ctx, s.store)
}

// signersOf returns the keys that issue the credentials of agents, proxies and servers.
func signersOf(keys *keyring.Ring) broker.Signers {
	of := func(kind keyring.Kind) broker.Issuers {
		issue, counting := keys.Signers(kind)
		own, _ := issue.PublicKey() // cannot fail: Signers has parsed the seed
		return broker.Issuers{
			Issue:  issue,
			Others: slices.DeleteFunc(counting, func(key string) bool { return key == own }),
		}
	}
	return broker.Signers{
		Agents: of(keyring.AgentSigner), Proxies: of(keyring.ProxySigner), Servers: of(keyring.ServerSigner),
	}
}

// keysChanged makes all that this server signs, issues and verifies use the changed keys.
func (s *Server) keysChanged() {
	defer s.trust.changed()
	s.pairs.Changed()
	s.tickets.Changed()
	idle.Wake(s.work.keys)
	if err := s.broker.SetSigners(signersOf(s.keys)); err != nil {
		s.cfg.Log.Error("cannot update the credential signers of the fabric", "error", err)
	}
	if s.joining != nil {
		if err := s.joining.trust.Set(s.joining.fabric.CA()); err != nil {
			s.cfg.Log.Error("cannot update the certificate authorities of the fabric", "error", err)
		}
		s.joining.proxies.pairs.Changed()
		s.joining.proxies.look()
	}
	s.cfg.Log.Info("keys changed", "revision", s.keys.State().Revision)
}

// addresses returns the addresses of the fabric for the agents of an area.
func (s *Server) addresses(area int) []string {
	if s.joining != nil {
		if urls := s.joining.proxies.urls(area); len(urls) > 0 {
			return urls
		}
	}
	return s.FabricURLs()
}

// cloned records that a second host uses the key of an agent.
func (s *Server) cloned(ctx context.Context, agent string, rival fleet.Rival) {
	a, _ := s.directory.ByKey(agent)
	detail, _ := json.Marshal(map[string]string{"agent": agent, "second": rival.Name}) // two strings always encode
	row := store.AuditRow{
		At: time.Now(), Action: "agents.copy", Target: fmt.Sprintf("%d:%s", a.Cloud, a.IP), Targets: 1, Detail: detail,
		Message: "two hosts use the key of one agent: the second one was refused",
	}
	if err := s.audit.PutAudit(ctx, row); err != nil {
		s.cfg.Log.ErrorContext(ctx, "cannot store the record of a copied agent", "error", err)
	}
}
