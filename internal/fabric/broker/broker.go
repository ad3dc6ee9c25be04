// Package broker embeds a NATS server for the fabric: operator mode, one account, core NATS over TCP, nothing else. It
// owns the server, its keys, the rights of its clients, and the relay by which a proxy joins another network to it. It
// knows neither messages nor the rules for joining. A program that only talks to a broker imports fabric instead and
// links no server.
package broker

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"drover/internal/fabric"
)

// Rights are the subjects of a role, as templates: {{subject()}} is the public key of the client, {{tag(area)}} is
// its area.
type Rights struct {
	Publish, Subscribe []string
}

// Config configures the addresses of the broker, and the rights of agents and proxies.
type Config struct {
	// Dir holds the keys and the last ports. It is made (0700) at the first start.
	Dir string
	// Listen is the address and port. Port 0 means the port of the last start if it is free, otherwise any port.
	Listen string
	// Leaves is the address and port for proxies; empty for none. Port 0 is any port.
	Leaves string
	// Cluster joins the broker to the brokers of other servers; nil means a single broker.
	Cluster *Cluster
	Log     *slog.Logger
	// TLS is the configuration of the listeners; nil is for loopback only. The TLS handshake comes before any other
	// byte.
	TLS *tls.Config
	// Ready is closed once clients may connect with TLS: until then their handshakes wait. nil admits them at once.
	Ready <-chan struct{}
	// Denied is called with a text for an attempt to exceed rights or to use rejected credentials, for a few attempts a
	// second at most. It may be nil.
	Denied func(text string)
	// Revoked are the public keys of agents and proxies whose credentials are revoked.
	Revoked []string
	// Signers issue the credentials of agents, of proxies and of this server.
	Signers Signers
	// Agents are the rights of an agent. In addition it may receive replies in its own inbox and answer its requests.
	Agents Rights
	// Proxies are the rights of a proxy. In addition it may receive replies for its whole area, and reply to servers.
	Proxies Rights
}

// Broker is a running embedded server.
type Broker struct {
	authority   *authority
	trust       trust
	srv         *server.Server
	port        int
	leafPort    int // 0 means none
	clusterPort int // 0 means none
	own         *serverUser
	log         *slog.Logger
	// doubted is when Listeners last found a subscription with wildcards.
	doubted time.Time
}

// Start opens or makes the keys and starts the server. When Start returns, the server accepts clients, proxies and
// other brokers. Start fails if ctx has ended, if a key is not usable or if it cannot listen on one of the addresses.
func Start(ctx context.Context, cfg Config) (*Broker, error) {
	b, err := start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot start broker: %w", err)
	}
	return b, nil
}

func start(ctx context.Context, cfg Config) (*Broker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, err := newEndpoint(cfg.Dir, cfg.Listen, cfg.TLS, cfg.Log)
	if err != nil {
		return nil, err
	}
	at.denied, at.ready = cfg.Denied, cfg.Ready
	b := &Broker{log: cfg.Log}
	if b.authority, err = openAuthority(cfg.Dir, cfg.Signers, cfg.Agents, cfg.Proxies); err != nil {
		return nil, err
	}
	b.authority.setRevoked(cfg.Revoked)
	if b.own, err = b.authority.newServerUser(b.authority.account); err != nil {
		return nil, err
	}
	if b.trust, err = newTrust(); err != nil {
		return nil, err
	}
	account, err := b.authority.accountClaims()
	if err != nil {
		return nil, err
	}
	var opts *server.Options
	//nolint:contextcheck // a handshake outlives the start
	b.srv, b.port, err = at.start(func() (*server.Options, error) {
		if opts, err = b.trust.options(account); err != nil {
			return nil, err
		}
		opts.ServerName = "drover"
		if cfg.Cluster != nil {
			if err := cfg.Cluster.options(opts); err != nil {
				return nil, err
			}
		}
		return opts, hubOptions(opts, cfg)
	})
	if err != nil {
		return nil, err
	}
	b.leafPort = opts.LeafNode.Port // the server has stored the chosen port there
	if addr := b.srv.ClusterAddr(); addr != nil {
		b.clusterPort = addr.Port
	}
	return b, nil
}

// hubOptions makes a server accept proxies, if the configuration asks for that.
func hubOptions(opts *server.Options, cfg Config) error {
	if cfg.Leaves == "" {
		return nil
	}
	host, port, err := splitAddress(cfg.Leaves)
	if err != nil {
		return err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	opts.LeafNode.Host, opts.LeafNode.Port = host, port
	opts.LeafNode.NoAdvertise = true
	opts.LeafNode.AuthTimeout = authTimeout
	// The agents behind one proxy must not reach another proxy.
	opts.LeafNode.IsolateLeafnodeInterest = true
	if cfg.TLS != nil {
		opts.LeafNode.TLSConfig, opts.LeafNode.TLSHandshakeFirst = accepting(cfg.TLS, nil), true
		opts.LeafNode.TLSTimeout = tlsTimeout
	}
	return nil
}

// URL returns the address for clients on this machine, such as nats://127.0.0.1:4222, or tls:// with TLS.
func (b *Broker) URL() string { return b.srv.ClientURL() }

// Port returns the port for clients.
func (b *Broker) Port() int { return b.port }

// LeafPort returns the port for proxies, 0 for none.
func (b *Broker) LeafPort() int { return b.leafPort }

// ClusterPort returns the port for other brokers, 0 for none.
func (b *Broker) ClusterPort() int { return b.clusterPort }

// ServerIdentity returns the identity of the server itself, made at this start: every right in the account. Its JWT is
// for the next connect, because SetSigners may replace the signer.
func (b *Broker) ServerIdentity() fabric.Identity { return b.own.identity() }

// InProcessConn returns a connection from within this process (fabric.DialConfig.Broker).
func (b *Broker) InProcessConn() (net.Conn, error) { return b.srv.InProcessConn() }

// IssueAgent returns a user JWT for the holder of a public user nkey in an area. The JWT holds no rights: the broker
// fills in the agents' template at each connect, so a later change of the template needs no new JWT.
func (b *Broker) IssueAgent(publicNKey string, area int) (string, error) {
	return b.authority.issue(b.authority.agents.Load(), publicNKey, area)
}

// IssueProxy returns a user JWT for a proxy of an area, like IssueAgent.
func (b *Broker) IssueProxy(publicNKey string, area int) (string, error) {
	return b.authority.issue(b.authority.proxies.Load(), publicNKey, area)
}

// Account returns the JWT of the account, by which a Relay verifies users. It changes with Revoke, Restore and
// SetSigners.
func (b *Broker) Account() (string, error) {
	b.authority.mu.Lock()
	defer b.authority.mu.Unlock()
	return b.authority.accountToken()
}

// Revoke revokes the present and future credentials of an agent or a proxy, until Restore. It disconnects the client
// before it returns, and the broker rejects the client if it reconnects. The next start needs the revocation in its
// Config.
func (b *Broker) Revoke(publicNKey string) error {
	return b.changeAccount(func() { b.authority.mark(publicNKey, true) })
}

// Restore makes the credentials of an agent or a proxy valid again.
func (b *Broker) Restore(publicNKey string) error {
	// Each change goes to every connection, so a first join makes no change.
	if !b.authority.toRestore(publicNKey) {
		return nil
	}
	return b.changeAccount(func() { b.authority.mark(publicNKey, false) })
}

// SetSigners replaces the issuers of credentials. Credentials of issuers that are no longer named end at once: the
// broker disconnects their agents and proxies, and accepts them with other credentials.
func (b *Broker) SetSigners(s Signers) error {
	return b.changeAccount(func() { b.authority.setSigners(s) })
}

// RefreshRevoked replaces the revoked keys with the result of read, because another server may have changed them. A
// change here during read stays. Refreshes run one at a time; the error comes from read, or from the change.
func (b *Broker) RefreshRevoked(read func() ([]string, error)) error {
	return b.authority.refresh(read, b.changeAccount)
}

// changeAccount applies a change of the account to the running server.
func (b *Broker) changeAccount(change func()) error {
	b.authority.mu.Lock()
	defer b.authority.mu.Unlock()
	change()
	account, err := b.authority.accountClaims()
	if err != nil {
		return err
	}
	return b.trust.apply(account, b.srv)
}

// Shutdown ends the server and every connection, and waits for that. Later calls do nothing.
func (b *Broker) Shutdown() { shutdown(b.srv) }
