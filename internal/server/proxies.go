package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"drover/internal/config/settings"
	"drover/internal/fabric/broker"
	"drover/internal/idle"
	"drover/internal/server/api/hosts"
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

// proxies is the register of proxies and of the data that they use. It implements enrol.Proxies and is safe for
// concurrent use.
type proxies struct {
	s *Server
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

func newProxies(s *Server) *proxies {
	p := &proxies{s: s, changed: make(chan struct{}, 1), beats: map[string]lastBeat{}}
	p.pairs = pairs.New(pairs.Config{Fleet: s.fleet, Keys: s.keys.SealingPairs, Sealing: p.sealingOf})
	return p
}

// reseal takes another sealing key of a proxy, which the proxy itself has signed.
func (p *proxies) reseal(ctx context.Context, proxy string, signed []byte) error {
	c, err := p.s.openSealing(signed, proxy)
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
	if err := p.s.store.ResealProxy(ctx, proxy, before, after); err != nil {
		return err
	}
	return p.load(ctx)
}

// sealingOf returns the sealing keys of a proxy.
func (p *proxies) sealingOf(_ context.Context, proxy string) (key string, known bool, err error) {
	for _, one := range p.all() {
		if one.Key == proxy {
			return one.Sealing, true, nil
		}
	}
	return "", false, nil
}

// load reads the register.
func (p *proxies) load(ctx context.Context) error {
	list, err := p.s.store.ListProxies(ctx)
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
func (p *proxies) share(ctx context.Context) error {
	now := p.s.clock.Now()
	p.mu.Lock()
	known := !p.sharedAt.IsZero() && now.Sub(p.sharedAt) < hubsEvery
	p.mu.Unlock()
	own := p.ownHubs()
	if known || len(own) == 0 || !p.s.store.Shared() {
		return nil
	}
	shared, err := p.s.store.ShareHubs(ctx, own, hubsKept)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared, p.sharedAt = shared, now
	return nil
}

func (p *proxies) all() []store.Proxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list
}

// urls returns the URLs of an area's proxies; none if the area has no proxy.
func (p *proxies) urls(area int) []string {
	var urls []string
	for _, one := range p.all() {
		if one.Area == area {
			urls = append(urls, "tls://"+one.Advertise)
		}
	}
	return urls
}

// serves reports whether an area has a proxy.
func (p *proxies) serves(area int) bool { return len(p.urls(area)) > 0 }

// Admit implements enrol.Proxies.
func (p *proxies) Admit(ctx context.Context, one store.Proxy, check func(store.JoinToken, bool) error) error {
	if err := p.s.store.UseProxyToken(ctx, one, check); err != nil {
		return err
	}
	return p.reload(ctx, one.Key)
}

// Remove implements enrol.Proxies.
func (p *proxies) Remove(ctx context.Context, key string, at time.Time) error {
	if err := p.s.store.RemoveProxy(ctx, key, at); err != nil {
		return err
	}
	return p.reload(ctx, key)
}

// reload reads a change of the register that this server made, and notifies other servers.
func (p *proxies) reload(ctx context.Context, key string) error {
	if err := p.load(ctx); err != nil {
		return err
	}
	p.s.trust.changed()
	idle.Wake(p.changed)
	p.s.cluster.rightsChanged(key)
	return nil
}

// Issue implements enrol.Proxies.
func (p *proxies) Issue(one store.Proxy, certificate []byte) (wire.ProxyEnrolment, error) {
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
	jwt, err := p.s.broker.IssueProxy(one.Key, one.Area)
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	account, err := p.s.broker.Account()
	if err != nil {
		return wire.ProxyEnrolment{}, err
	}
	e := wire.ProxyEnrolment{
		Area: one.Area, Name: one.Name, JWT: jwt, Hubs: hubs, CA: p.s.joining.fabric.CA(), Fleet: p.s.fleet,
		SealingKeys: p.s.keys.SealingKeys(), Account: account, Digest: digest,
	}
	if broker.IssuerOf(jwt) != p.s.keys.Signer(keyring.ProxySigner) {
		e.Digest = "" // the proxy asks again, until a server has the key
	}
	if len(certificate) > 0 {
		if e.Certificate, err = p.s.joining.fabric.CertifyProxy(certificate, one.Area, one.Key); err != nil {
			return wire.ProxyEnrolment{}, err
		}
	}
	return e, nil
}

// digestNow returns the digest of the data that all proxies use.
func (p *proxies) digestNow() (string, error) {
	token, err := p.s.broker.Account()
	if err != nil {
		return "", err
	}
	account, err := broker.AccountDigest(token)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(account + "\n" + strings.Join(p.hubs(), " ") + "\n" +
		strings.Join(p.s.keys.SealingKeys(), " ") + "\n" + p.s.keys.Signer(keyring.ProxySigner) + "\n" +
		p.s.joining.fabric.CA()))
	return hex.EncodeToString(sum[:8]), nil
}

// hubs returns the addresses of all servers for proxies, host:port; none if this server accepts no proxies.
func (p *proxies) hubs() []string {
	own := p.ownHubs()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(own) == 0 || len(p.shared) == 0 {
		return own
	}
	return p.shared
}

// ownHubs returns the addresses that this server gives proxies, host:port; none if it accepts no proxies.
func (p *proxies) ownHubs() []string {
	fleet := p.s.joining.fleet
	if len(fleet.AdvertiseProxies) > 0 {
		return fleet.AdvertiseProxies
	}
	if p.s.embedded == nil || p.s.embedded.LeafPort() == 0 {
		return nil
	}
	port := strconv.Itoa(p.s.embedded.LeafPort())
	host, _, _ := net.SplitHostPort(fleet.Proxies) // the broker listens on this address
	if !settings.Everywhere(host) {
		return []string{net.JoinHostPort(host, port)}
	}
	var hubs []string
	for _, address := range fleet.Advertise {
		if host, _, err := net.SplitHostPort(address); err == nil {
			hubs = append(hubs, net.JoinHostPort(host, port))
		}
	}
	return hubs
}

// List implements hosts.Proxies.
func (p *proxies) List() []hosts.Proxy {
	now := p.s.clock.Now()
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
func (p *proxies) latest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.digest
}

// countProxies returns the number of proxies that have joined, and how many of them are online.
func (s *Server) countProxies() (known, online int) {
	if s.joining == nil || s.joining.proxies == nil {
		return 0, 0
	}
	for _, one := range s.joining.proxies.List() {
		known++
		if one.Online {
			online++
		}
	}
	return known, online
}

// look wakes the publisher, which notifies proxies if their data has changed. It does not block, and does nothing if
// there are no proxies.
func (p *proxies) look() {
	if p != nil {
		idle.Wake(p.changed)
	}
}

// notifyingBroker is the broker for the parts that change valid credentials. It notifies proxies of a change, because
// proxies admit agents themselves.
type notifyingBroker struct {
	brokers
	proxies *proxies
}

// Revoke implements enrol.Broker.
func (b notifyingBroker) Revoke(key string) error {
	defer b.proxies.look()
	return b.brokers.Revoke(key)
}

// Restore implements enrol.Broker.
func (b notifyingBroker) Restore(key string) error {
	defer b.proxies.look()
	return b.brokers.Restore(key)
}

// takeJoins sets the handler of requests from hosts behind proxies.
func (p *proxies) takeJoins(h http.Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joins = h
}
