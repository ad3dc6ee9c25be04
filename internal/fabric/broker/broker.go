// Package broker embeds a NATS server for the fabric: operator mode, one account, core NATS over TCP, nothing else.
// It owns the server, its keys, the rights of its clients, and the relay by which a proxy joins another network to
// it. It knows neither messages nor who may join. A program that only talks to a broker imports fabric instead and
// links no server.
package broker

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/nats-io/nats-server/v2/server"

	"drover/internal/fabric"
)

// Rights are the subjects of a role, as templates: {{subject()}} stands for the public key of who connects, {{tag(area)}} for its area.
type Rights struct {
	Publish, Subscribe []string
}

// Config says where the broker listens and what agents and proxies may do.
type Config struct {
	// Dir holds the keys and the last ports. It is made (0700) at the first start.
	Dir string
	// Listen is the address and port. Port 0 means the port of last time if it is free, else any.
	Listen string
	// Leaves is the address and port where proxies connect; empty for none. Port 0 is any.
	Leaves string
	// Cluster joins the broker to those of other servers; nil leaves it alone.
	Cluster *Cluster
	Log     *slog.Logger
	// TLS is what the listeners show; nil is for loopback only. Whoever connects shakes hands before anything else.
	TLS *tls.Config
	// Denied, unless it is nil, is called with a text for each attempt of somebody to do or to be what he has no right to, for some in a
	// second at most. It does not block for long.
	Denied func(text string)
	// Revoked are the public keys of agents and proxies whose credentials do not count.
	Revoked []string
	// Signers issue the credentials of agents.
	Signers Signers
	// Agents are the rights of an agent. Beyond them it may await replies in its own inbox and answer the requests that it got.
	Agents Rights
	// Proxies are the rights of a proxy. Beyond them it may await replies for its whole area, and reply to servers.
	Proxies Rights
}

// Broker is a running embedded server.
type Broker struct {
	authority   *authority
	srv         *server.Server
	port        int
	leafPort    int // 0 for none
	clusterPort int // 0 for none
	own         fabric.Identity
}

// Start opens or makes the keys and starts the server; it takes the connections of clients, proxies and other brokers when Start returns.
// It fails if ctx has ended, if a key can't be used or if one of the addresses can't be listened on.
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
	at.denied = cfg.Denied
	b := &Broker{}
	if b.authority, err = openAuthority(cfg.Dir, cfg.Signers, cfg.Agents, cfg.Proxies); err != nil {
		return nil, err
	}
	b.authority.setRevoked(cfg.Revoked)
	if b.own, err = b.authority.newServer(); err != nil {
		return nil, err
	}
	var opts *server.Options
	b.srv, b.port, err = at.start(func() (*server.Options, error) { //nolint:contextcheck // a handshake outlives the start
		if opts, err = b.authority.options(); err != nil {
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
	b.leafPort = opts.LeafNode.Port // the server has put a port that it chose there
	if addr := b.srv.ClusterAddr(); addr != nil {
		b.clusterPort = addr.Port
	}
	return b, nil
}

// hubOptions has a server take proxies, where that is asked for.
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
	// What is behind one proxy is no business of another.
	opts.LeafNode.IsolateLeafnodeInterest = true
	if cfg.TLS != nil {
		opts.LeafNode.TLSConfig, opts.LeafNode.TLSHandshakeFirst, opts.LeafNode.TLSTimeout = cfg.TLS, true, tlsTimeout
	}
	return nil
}

// URL returns where clients on this machine connect, such as nats://127.0.0.1:4222, or tls:// with TLS.
func (b *Broker) URL() string { return b.srv.ClientURL() }

// Port returns the port that is listened on for clients.
func (b *Broker) Port() int { return b.port }

// LeafPort returns the port that is listened on for proxies, 0 for none.
func (b *Broker) LeafPort() int { return b.leafPort }

// ClusterPort returns the port that is listened on for other brokers, 0 for none.
func (b *Broker) ClusterPort() int { return b.clusterPort }

// ServerIdentity returns the identity of the server itself, made at this start: every right in the account.
func (b *Broker) ServerIdentity() fabric.Identity { return b.own }

// InProcessConn returns a connection from within this process (fabric.DialConfig.Broker).
func (b *Broker) InProcessConn() (net.Conn, error) { return b.srv.InProcessConn() }

// IssueAgent returns a user JWT for the holder of a public user nkey in an area. It carries no rights of its own: the broker fills
// the agents' templates in at each connect, so a later change of them needs no new JWT.
func (b *Broker) IssueAgent(publicNKey string, area int) (string, error) {
	return b.authority.issue(*b.authority.agents.Load(), publicNKey, area)
}

// IssueProxy returns a user JWT for a proxy of an area, as IssueAgent does for an agent.
func (b *Broker) IssueProxy(publicNKey string, area int) (string, error) {
	return b.authority.issue(b.authority.proxies, publicNKey, area)
}

// Trust returns what a Relay lets users in by. It changes with Revoke and Restore.
func (b *Broker) Trust() (Trust, error) {
	b.authority.mu.Lock()
	defer b.authority.mu.Unlock()
	return b.authority.trust()
}

// Revoke ends the credentials of an agent or a proxy, those that it will be issued too, until Restore: it is cut off before Revoke
// returns, and refused when it comes back. A later start has to be told again.
func (b *Broker) Revoke(publicNKey string) error {
	return b.changeAccount(func() { b.authority.mark(publicNKey, true) })
}

// Restore makes the credentials of an agent or a proxy count again.
func (b *Broker) Restore(publicNKey string) error {
	// A change is told to every connection, so none is made for those who join for the first time.
	if !b.authority.toRestore(publicNKey) {
		return nil
	}
	return b.changeAccount(func() { b.authority.mark(publicNKey, false) })
}

// SetAgentSigners has credentials of agents be issued by another key from now on. Those that were issued by one which is not named any
// more end at once: who has one is cut off, and let in again with one of the others.
func (b *Broker) SetAgentSigners(s Signers) error {
	return b.changeAccount(func() { b.authority.setAgentSigners(s) })
}

// RefreshRevoked makes those that read returns all that are revoked: another server may have changed that. Who is revoked or restored here
// while it reads stays so, whether or not it has seen that. One refresh waits for another; its error is that of read, or of the change.
func (b *Broker) RefreshRevoked(read func() ([]string, error)) error {
	return b.authority.refresh(read, b.changeAccount)
}

// changeAccount tells the running server of a change to who may be in the account.
func (b *Broker) changeAccount(change func()) error {
	b.authority.mu.Lock()
	defer b.authority.mu.Unlock()
	change()
	trust, err := b.authority.trust()
	if err != nil {
		return err
	}
	return trust.apply(b.srv)
}

// Shutdown ends the server and every connection, and waits for that. Later calls do nothing.
func (b *Broker) Shutdown() { shutdown(b.srv) }
