// Package brokers opens the broker of a server's fabric – the embedded one, or the external ones of an operator – and
// dials it. It decides which addresses agents and proxies get, and which keys the broker accepts.
package brokers

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"drover/internal/config/settings"
	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/server/certificates"
	"drover/internal/server/keyring"
	"drover/internal/wire"
)

// Broker decides which clients may use the fabric. Package broker says what the methods do.
//
//nolint:interfacebloat // what both kinds of broker offer, for parts that each use some of it
type Broker interface {
	IssueAgent(publicNKey string, area int) (string, error)
	IssueProxy(publicNKey string, area int) (string, error)
	Account() (string, error)
	Revoke(publicNKey string) error
	Restore(publicNKey string) error
	RefreshRevoked(read func() ([]string, error)) error
	SetSigners(s broker.Signers) error
	ServerIdentity() fabric.Identity
}

// Config says which broker a server uses.
type Config struct {
	// Dir is the server's directory.
	Dir string
	// Listen is the address of the embedded broker, host:port.
	Listen string
	// External are the URLs of external brokers. If there are some, nothing is embedded.
	External []string
	// Cluster is the address for the embedded brokers of other servers, and Routes are their addresses. Both may be
	// empty.
	Cluster string
	Routes  []string
	// Advertise are the addresses for agents on other machines, and AdvertiseProxies those for proxies, host:port.
	// Proxies is the address at which the embedded broker listens to proxies; empty means none.
	Advertise, AdvertiseProxies []string
	Proxies                     string
	// Certificates are nil for a server without TLS.
	Certificates *certificates.Certificates
	Keys         *keyring.Ring
	// Tickets are the keys of TLS sessions with the embedded broker; nil without TLS.
	Tickets *keyring.Tickets
	// Removed reads the keys of removed agents and proxies from the database.
	Removed func(ctx context.Context) ([]string, error)
	// Ready is closed once the server receives reports; the embedded broker admits agents from then on.
	Ready <-chan struct{}
	// Denied is called with each denial, as a line of the broker.
	Denied func(text string)
	Log    *slog.Logger
}

// Brokers is the opened broker.
type Brokers struct {
	Broker
	cfg      Config
	embedded *broker.Broker   // one of these two
	external *broker.External // is nil
}

// Open starts the embedded broker, or prepares the use of external brokers. It rejects all removed keys.
func Open(ctx context.Context, cfg Config) (*Brokers, error) {
	removed, err := cfg.Removed(ctx)
	if err != nil {
		return nil, err
	}
	b := &Brokers{cfg: cfg}
	shown, verified := cfg.Certificates.FabricTLS()
	if len(cfg.External) > 0 {
		keys := externalKeys(cfg.Dir, cfg.Keys)
		keys.URLs, keys.TLS, keys.Revoked, keys.Reread, keys.Log = cfg.External, verified, removed, cfg.Removed, cfg.Log
		b.external, err = broker.OpenExternal(keys)
		b.Broker = b.external
		return b, err
	}
	cluster, err := b.cluster()
	if err != nil {
		return nil, err
	}
	cfg.Tickets.Resume(shown)
	b.embedded, err = broker.Start(ctx, broker.Config{
		Dir: directory(cfg.Dir), Listen: cfg.Listen, Leaves: cfg.Proxies, Cluster: cluster, TLS: shown,
		Revoked: removed, Signers: signers(cfg.Keys), Ready: cfg.Ready,
		Denied: cfg.Denied, Agents: rights(wire.AgentSubjects()), Proxies: rights(wire.ProxySubjects()), Log: cfg.Log,
	})
	b.Broker = b.embedded
	return b, err
}

// cluster returns the connection of the embedded broker to the brokers of other servers; nil if there is none.
func (b *Brokers) cluster() (*broker.Cluster, error) {
	if b.cfg.Cluster == "" {
		return nil, nil //nolint:nilnil // nil is a missing part
	}
	between, err := b.cfg.Certificates.Fabric.PeerTLS()
	if err != nil {
		return nil, err
	}
	return &broker.Cluster{Listen: b.cfg.Cluster, Routes: b.cfg.Routes, TLS: between}, nil
}

// directory is the broker's directory below a server's.
func directory(dir string) string { return filepath.Join(dir, "broker") }

// AccountName returns the name of the fabric's account, which names the fleet, by the keys below a server's directory.
// It makes missing keys.
func AccountName(dir string) (string, error) { return broker.AccountName(directory(dir)) }

// rights converts subjects to the broker's type.
func rights(publish, subscribe []string) broker.Rights {
	return broker.Rights{Publish: publish, Subscribe: subscribe}
}

// Embedded returns the embedded broker; nil with external brokers.
func (b *Brokers) Embedded() *broker.Broker { return b.embedded }

// Close ends the embedded broker, if there is one. It may be called on nil.
func (b *Brokers) Close() {
	if b != nil && b.embedded != nil {
		b.embedded.Shutdown()
	}
}

// Refresh rejects the keys that the database says were removed.
func (b *Brokers) Refresh(ctx context.Context) error {
	return b.RefreshRevoked(func() ([]string, error) { return b.cfg.Removed(ctx) })
}

// KeysChanged makes the broker accept the credentials that the present keys have signed.
func (b *Brokers) KeysChanged() error { return b.SetSigners(signers(b.cfg.Keys)) }

// URLs returns the URLs to which agents connect, in the form that agents get.
func (b *Brokers) URLs() []string {
	if b.cfg.Certificates == nil {
		return []string{b.embedded.URL()}
	}
	var urls []string
	for _, address := range b.cfg.Advertise {
		urls = append(urls, "tls://"+address)
	}
	switch {
	case len(urls) > 0:
		return urls
	case b.external != nil:
		return b.external.URLs()
	default:
		host, _, _ := net.SplitHostPort(b.cfg.Listen) // the broker listens on this address
		return []string{"tls://" + net.JoinHostPort(host, strconv.Itoa(b.embedded.Port()))}
	}
}

// ProxyAddresses returns the addresses that this server gives proxies, host:port; none if it accepts no proxies.
func (b *Brokers) ProxyAddresses() []string {
	if len(b.cfg.AdvertiseProxies) > 0 {
		return b.cfg.AdvertiseProxies
	}
	if b.embedded == nil || b.embedded.LeafPort() == 0 {
		return nil
	}
	port := strconv.Itoa(b.embedded.LeafPort())
	host, _, _ := net.SplitHostPort(b.cfg.Proxies) // the broker listens on this address
	if !settings.Everywhere(host) {
		return []string{net.JoinHostPort(host, port)}
	}
	var addresses []string
	for _, address := range b.cfg.Advertise {
		if host, _, err := net.SplitHostPort(address); err == nil {
			addresses = append(addresses, net.JoinHostPort(host, port))
		}
	}
	return addresses
}

// AgentAddresses returns the addresses from which agents are connected to the embedded broker, by their keys.
func (b *Brokers) AgentAddresses() map[string]string {
	if b.embedded == nil {
		return nil
	}
	return b.embedded.Addresses()
}

// Dial connects the server to its fabric, and calls connected whenever a link is established. It blocks until the first
// link, or until ctx ends.
func (b *Brokers) Dial(ctx context.Context, connected func()) (*fabric.Conn, error) {
	dial := fabric.DialConfig{
		Identity: b.ServerIdentity(), Name: "server", Log: b.cfg.Log,
		Token:       func() string { return b.ServerIdentity().JWT },
		OnConnected: connected, Replies: mayReply,
	}
	if b.external != nil {
		dial.URLs = b.external.URLs()
		_, dial.TLS = b.cfg.Certificates.FabricTLS()
	} else {
		dial.Broker = b.embedded
	}
	return fabric.Dial(ctx, dial)
}

// mayReply reports whether a reply goes to the sender of the request. Agents and proxies choose their reply subjects,
// and must not make the server write to another's inbox. Their subjects have their area and key; other subjects belong
// to servers.
func mayReply(subject, reply string) bool {
	const parts, area, key = 6, 2, 4
	words := strings.Split(subject, ".")
	return len(words) != parts || strings.HasPrefix(reply, fabric.InboxPrefix(words[area], words[key])+".")
}

// Run updates the rights of clients at external brokers, until ctx ends.
func (b *Brokers) Run(ctx context.Context) error {
	if b.external == nil {
		<-ctx.Done()
		return nil
	}
	return b.external.Run(ctx)
}
