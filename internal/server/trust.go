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
	"drover/internal/server/fleet"
	"drover/internal/server/keyring"
	"drover/internal/server/store"
	"drover/internal/wire"
)

const (
	// trustLife is how long an agent has to take what it is to trust.
	trustLife = 10 * time.Minute
	// digestLife is how long the name of what an area is to trust is not worked out anew.
	digestLife = time.Second
)

// trust has agents go by the present addresses, authorities and keys. Each agent says with each report what it goes by,
// so nothing has to be remembered of those that are away.
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

// of returns what the agents of an area are to go by, but for what is each one's own. The name is taken before the
// contents: where keys are replaced meanwhile, an agent has new contents by an old name, which a later report of it
// puts right.
func (t *trust) of(area int) wire.Enrolment {
	keys, revision := t.s.keys.Digest()
	e := wire.Enrolment{URLs: t.s.addresses(area), ManifestKeys: t.s.keys.ManifestKeys(), Fleet: t.s.fleet, Cloud: area}
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

// enrolment makes all that an agent needs to find and to trust this server. Where that is not by the present keys, it
// has no name, so that the agent is told anew as soon as it can be.
func (t *trust) enrolment(a store.Agent) (wire.Enrolment, error) {
	e := t.of(a.Cloud)
	signer := t.s.keys.Signer()
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

// digest names what an area is to go by.
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

// changed has the names worked out anew.
func (t *trust) changed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.digests)
}

// renew returns the sealed manifest by which an agent is to renew what it trusts; nil where it has the latest. It is
// signed by every key that is held here, so that also one is reached that has been away while keys were replaced.
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
	now := time.Now()
	sealed, err := wire.Seal(wire.Manifest{Agent: agent, Issued: now, Expires: now.Add(trustLife), Trust: &e},
		t.s.keys.ManifestKey(), t.s.keys.Further()...)
	if err != nil {
		t.s.cfg.Log.ErrorContext(ctx, "cannot sign the trust of an agent", "agent", agent, "error", err)
		return nil
	}
	return sealed
}

// trusts reports whether an agent is known to go by what it names, and there is nothing later for it that this server
// could give out. It takes nobody's word: who names something else is to sign that first.
func (t *trust) trusts(agent string, held wire.TrustHeld) bool {
	a, known := t.s.directory.ByKey(agent)
	if !known {
		return true
	}
	noted := t.s.directory.Presence(agent, time.Now()).Trust
	return held.Digest == noted && (held.Digest == t.digest(a.Cloud) || !t.s.keys.Whole())
}

// reached counts the agents that are there, and those of them that go by the present keys as far as this server has
// heard.
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

// openKeys opens the keys by which agents trust this server, and what the listeners need.
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

// shareKeys has the keys be those of all servers on the database.
func (s *Server) shareKeys(ctx context.Context) error {
	s.keys.OnChange(s.keysChanged)
	return s.keys.Join(ctx, s.store)
}

// signers are the keys that issue the credentials of agents.
func (s *Server) signers() broker.Signers { return signersOf(s.keys) }

func signersOf(keys *keyring.Ring) broker.Signers {
	issue, counting := keys.Signers()
	own, _ := issue.PublicKey() // it was read by that
	return broker.Signers{
		Issue:  issue,
		Others: slices.DeleteFunc(counting, func(key string) bool { return key == own }),
	}
}

// keysChanged has other keys count for everything that this server signs, issues and verifies.
func (s *Server) keysChanged() {
	defer s.trust.changed()
	if err := s.broker.SetAgentSigners(s.signers()); err != nil {
		s.cfg.Log.Error("cannot update the credential signers of the fabric", "error", err)
	}
	if s.joining != nil {
		if err := s.joining.trust.Set(s.joining.fabric.CA()); err != nil {
			s.cfg.Log.Error("cannot update the certificate authorities of the fabric", "error", err)
		}
		s.joining.proxies.look()
	}
	s.cfg.Log.Info("keys changed", "revision", s.keys.State().Revision)
}

// addresses are where the agents of an area find the fabric.
func (s *Server) addresses(area int) []string {
	if s.joining != nil {
		if urls := s.joining.proxies.urls(area); len(urls) > 0 {
			return urls
		}
	}
	return s.FabricURLs()
}

// cloned puts on record that a second host uses the key of an agent.
func (s *Server) cloned(ctx context.Context, agent string, rival fleet.Rival) {
	a, _ := s.directory.ByKey(agent)
	detail, _ := json.Marshal(map[string]string{"agent": agent, "second": rival.Name}) // two texts
	row := store.AuditRow{
		At: time.Now(), Action: "agents.copy", Target: fmt.Sprintf("%d:%s", a.Cloud, a.IP), Targets: 1, Detail: detail,
		Message: "two hosts use the key of one agent: the second one was refused",
	}
	if err := s.audit.PutAudit(ctx, row); err != nil {
		s.cfg.Log.ErrorContext(ctx, "cannot store the record of a copied agent", "error", err)
	}
}
