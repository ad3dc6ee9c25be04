// Package proxies is the servers' side of the proxies: the register of proxies, the data that they use, and the answers
// to them and to the hosts behind them.
package proxies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/idle"
	"drover/internal/pki"
	"drover/internal/server/api/hosts"
	"drover/internal/server/enrol"
	"drover/internal/server/keyring"
	"drover/internal/server/pairs"
	"drover/internal/server/store"
	"drover/internal/wire"
)

const (
	// proxiesEvery is the interval at which the register is read again, because another server may have admitted a
	// proxy.
	proxiesEvery = 5 * time.Second
	// proxyAwayAfter is how long after its last message a proxy counts as offline.
	proxyAwayAfter = 15 * time.Second
	// hubsEvery is the interval at which servers exchange their addresses for proxies. An address that no server has
	// had for hubsKept is forgotten: until then the server may come back, and find proxies that know only this address.
	hubsEvery = 15 * time.Second
	hubsKept  = 30 * 24 * time.Hour
)

// Store holds the register of proxies.
type Store interface {
	store.Proxies
	store.Hubs
	// Shared reports whether other servers can be on the database.
	Shared() bool
}

// Broker gives proxies their credentials.
type Broker interface {
	IssueProxy(publicNKey string, area int) (string, error)
	Account() (string, error)
}

// Config is what a Register needs.
type Config struct {
	Store  Store
	Broker Broker
	Keys   *keyring.Ring
	// Authority certifies proxies, and proves to hosts that an answer is the server's.
	Authority *pki.Manager
	// Fleet is the name of the fleet.
	Fleet string
	// Addresses returns the addresses of this server for proxies, host:port; none if it accepts no proxies.
	Addresses func() []string
	// Admitted is called with the key of each proxy that this server has admitted or removed.
	Admitted func(key string)
	// Removed makes the broker reject all agents that the database says were removed.
	Removed func(ctx context.Context) error
	// Reports and Packages answer the agents behind proxies.
	Reports, Packages fabric.Handler
	// Now is the clock of the fleet.
	Now func() time.Time
	Log *slog.Logger
}

// Register is the register of proxies and of the data that they use. It implements enrol.Proxies and is safe for
// concurrent use.
type Register struct {
	cfg Config
	// pairs seal and open the frames of proxies.
	pairs *pairs.Pairs
	// changed is raised when the register or the data of the proxies may have changed.
	changed chan struct{}

	mu     sync.Mutex
	list   []store.Proxy
	beats  map[string]lastBeat
	digest string
	// shared are the addresses of all servers for proxies, as of sharedAt.
	shared   []string
	sharedAt time.Time
	// joins handles the requests of hosts; nil until the server accepts calls.
	joins http.Handler
}

// lastBeat is the last status that a proxy has reported, and when the proxy has sealed it.
type lastBeat struct {
	at time.Time
	wire.Beat
}

// New returns an empty register; Load reads it.
func New(cfg Config) *Register {
	p := &Register{cfg: cfg, changed: make(chan struct{}, 1), beats: map[string]lastBeat{}}
	p.pairs = pairs.New(pairs.Config{Fleet: cfg.Fleet, Keys: cfg.Keys.SealingPairs, Sealing: p.sealingOf})
	return p
}

// reseal takes another sealing key of a proxy, which the proxy itself has signed.
func (p *Register) reseal(ctx context.Context, proxy string, signed []byte) error {
	c, err := p.pairs.OpenSealing(signed, proxy, p.cfg.Now())
	if err != nil {
		return err
	}
	before, known, err := p.sealingOf(ctx, proxy)
	if err != nil || !known {
		return errors.Join(err, pairs.ErrUnknownMember)
	}
	after, err := p.pairs.Replaced(before, c.Key, c.Since)
	if err != nil || after == before {
		return err
	}
	if err := p.cfg.Store.ResealProxy(ctx, proxy, before, after); err != nil {
		return err
	}
	return p.Load(ctx)
}

// sealingOf returns the sealing keys of a proxy.
func (p *Register) sealingOf(_ context.Context, proxy string) (key string, known bool, err error) {
	one, known := p.byKey(proxy)
	return one.Sealing, known, nil
}

// byKey returns the proxy with a key.
func (p *Register) byKey(key string) (one store.Proxy, known bool) {
	list := p.all()
	i := slices.IndexFunc(list, func(one store.Proxy) bool { return one.Key == key })
	if i < 0 {
		return store.Proxy{}, false
	}
	return list[i], true
}

// Load reads the register.
func (p *Register) Load(ctx context.Context) error {
	list, err := p.cfg.Store.ListProxies(ctx)
	if err != nil {
		return err
	}
	if err := p.share(ctx); err != nil {
		return err
	}
	digest, err := p.digestNow()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list, p.digest = list, digest
	maps.DeleteFunc(p.beats, func(key string, _ lastBeat) bool {
		return !slices.ContainsFunc(list, func(one store.Proxy) bool { return one.Key == key })
	})
	return nil
}

// share exchanges the addresses for proxies with the other servers on the database. A proxy that knows
// the address of one server only would be away with that server.
func (p *Register) share(ctx context.Context) error {
	now := p.cfg.Now()
	p.mu.Lock()
	known := !p.sharedAt.IsZero() && now.Sub(p.sharedAt).Abs() < hubsEvery // the clock may have been set back
	p.mu.Unlock()
	own := p.cfg.Addresses()
	if known || len(own) == 0 || !p.cfg.Store.Shared() {
		return nil
	}
	shared, err := p.cfg.Store.ShareHubs(ctx, own, hubsKept)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared, p.sharedAt = shared, now
	return nil
}

func (p *Register) all() []store.Proxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list
}

// URLs returns the URLs of an area's proxies; none if the area has no proxy.
func (p *Register) URLs(area int) []string {
	var urls []string
	for _, one := range p.all() {
		if one.Area == area {
			urls = append(urls, "tls://"+one.Advertise)
		}
	}
	return urls
}

// Serves reports whether an area has a proxy.
func (p *Register) Serves(area int) bool { return len(p.URLs(area)) > 0 }

// Admit implements enrol.Proxies.
func (p *Register) Admit(ctx context.Context, one store.Proxy, check func(store.JoinToken, bool) error) error {
	if err := p.cfg.Store.UseProxyToken(ctx, one, check); err != nil {
		return err
	}
	p.reload(ctx, one.Key)
	return nil
}

// Remove implements enrol.Proxies.
func (p *Register) Remove(ctx context.Context, key string, at time.Time) error {
	if err := p.cfg.Store.RemoveProxy(ctx, key, at); err != nil {
		return err
	}
	p.reload(ctx, key)
	return nil
}

// reload reads a change of the register that this server has stored, and notifies other servers. A failed read does not
// undo the change, so it is only logged, and Serve reads again. The caller of the change may have hung up.
func (p *Register) reload(ctx context.Context, key string) {
	if err := p.Load(ctx); err != nil {
		p.cfg.Log.WarnContext(ctx, "cannot read the register of proxies", "error", err)
	}
	idle.Wake(p.changed)
	p.cfg.Admitted(key)
}

// Issue implements enrol.Proxies.
func (p *Register) Issue(one store.Proxy, certificate []byte) (wire.ProxyEnrolment, error) {
	hubs := p.hubs()
	if len(hubs) == 0 {
		return wire.ProxyEnrolment{},
			errors.New(
				"this server takes no proxies: start it with --proxies, or with --advertise-proxies if it uses --nats")
	}
	// The digest is computed before the contents are read. If a change comes in between, the proxy has an old digest
	// and so asks again.
	digest, err := p.digestNow()
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	jwt, err := p.cfg.Broker.IssueProxy(one.Key, one.Area)
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	account, err := p.cfg.Broker.Account()
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	e := wire.ProxyEnrolment{
		Area: one.Area, Name: one.Name, JWT: jwt, Hubs: hubs, CA: p.cfg.Authority.CA(), Fleet: p.cfg.Fleet,
		SealingKeys: p.cfg.Keys.SealingKeys(), Account: account, Digest: digest,
	}
	if broker.IssuerOf(jwt) != p.cfg.Keys.Signer(keyring.ProxySigner) {
		e.Digest = "" // the proxy asks again, until a server has the key
	}
	if len(certificate) > 0 {
		if e.Certificate, err = p.cfg.Authority.CertifyProxy(certificate, one.Area, one.Key); err != nil {
			return wire.ProxyEnrolment{}, err
		}
	}
	return e, nil
}

// digestNow returns the digest of the data that all proxies use.
func (p *Register) digestNow() (string, error) {
	token, err := p.cfg.Broker.Account()
	if err != nil {
		return "", err
	}
	account, err := broker.AccountDigest(token)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(account + "\n" + strings.Join(p.hubs(), " ") + "\n" +
		strings.Join(p.cfg.Keys.SealingKeys(), " ") + "\n" + p.cfg.Keys.Signer(keyring.ProxySigner) + "\n" +
		p.cfg.Authority.CA()))
	return hex.EncodeToString(sum[:8]), nil
}

// hubs returns the addresses of all servers for proxies, host:port; none if this server accepts no proxies.
func (p *Register) hubs() []string {
	own := p.cfg.Addresses()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(own) == 0 || len(p.shared) == 0 {
		return own
	}
	return p.shared
}

// List implements hosts.Proxies.
func (p *Register) List() []hosts.Proxy {
	now := p.cfg.Now()
	list := p.all()
	views := make([]hosts.Proxy, len(list))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, one := range list {
		last := p.beats[one.Key]
		views[i] = hosts.Proxy{
			Proxy: one, Online: !last.at.IsZero() && now.Sub(last.at) < proxyAwayAfter,
			LastSeen: last.at, Agents: last.Agents,
		}
		if last.Build != "" {
			views[i].Build = last.Build
		}
	}
	return views
}

// latest returns the digest of the data that proxies use, as of the last read.
func (p *Register) latest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.digest
}

// Count returns the number of proxies that have joined, and how many of them are online. It may be called on nil.
func (p *Register) Count() (known, online int) {
	if p == nil {
		return 0, 0
	}
	for _, one := range p.List() {
		known++
		if one.Online {
			online++
		}
	}
	return known, online
}

// KeysChanged uses the changed keys of the fleet, and notifies the proxies. It may be called on nil.
func (p *Register) KeysChanged() {
	if p != nil {
		p.pairs.Changed()
		idle.Wake(p.changed)
	}
}

// Notifying returns the broker for the part that removes and restores agents. It notifies proxies of each change,
// because proxies admit agents themselves.
func (p *Register) Notifying(b enrol.Broker) enrol.Broker { return notifyingBroker{b, p} }

type notifyingBroker struct {
	enrol.Broker
	proxies *Register
}

// Revoke implements enrol.Broker.
func (b notifyingBroker) Revoke(key string) error {
	defer idle.Wake(b.proxies.changed)
	return b.Broker.Revoke(key)
}

// Restore implements enrol.Broker.
func (b notifyingBroker) Restore(key string) error {
	defer idle.Wake(b.proxies.changed)
	return b.Broker.Restore(key)
}

// TakeJoins sets the handler of requests from hosts behind proxies.
func (p *Register) TakeJoins(h http.Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joins = h
}
