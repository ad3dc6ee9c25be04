package broker

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"drover/internal/fabric"
)

const (
	leafRetry       = time.Second // plus a random time up to the same
	leafReports     = 600         // one in leafReports failed attempts is logged
	leafDialTimeout = 5 * time.Second
	leafInfoTimeout = 5 * time.Second
)

// RelayConfig configures the listener of a relay, and its hubs.
type RelayConfig struct {
	// Dir holds the last port. It is made (0700) at the first start.
	Dir string
	// Listen is the address and port for agents. Port 0 means the port of the last start if it is free, otherwise any
	// port.
	Listen string
	// TLS is the configuration of the listener; nil is for loopback only.
	TLS *tls.Config
	// Account is the JWT of the fleet's account, which verifies agents. It must come from the servers: the relay does
	// not check who has signed it.
	Account string
	// Hubs are the addresses, host:port, at which brokers listen for proxies; the relay joins one of them. HubTLS
	// verifies them; nil is without TLS.
	Hubs   []string
	HubTLS *tls.Config
	// Identity is the proxy's own identity.
	Identity fabric.Identity
	Log      *slog.Logger
}

// Relay is a running server for agents of one area, joined to a broker as a leaf node. The broker decides which
// messages the relay may carry. The relay verifies agents without asking the broker, and reconnects to a broker for
// ever.
type Relay struct {
	srv   *server.Server
	port  int
	trust trust
	// account is the name of the account, and own the user of the proxy itself.
	account, own string
}

// StartRelay starts a relay; when it returns, the relay accepts connections, joined or not. It fails if ctx has
// ended, if it cannot read Account or if it cannot listen on the address.
func StartRelay(ctx context.Context, cfg RelayConfig) (*Relay, error) {
	r, err := startRelay(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("cannot start relay: %w", err)
	}
	return r, nil
}

func startRelay(ctx context.Context, cfg RelayConfig) (*Relay, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(cfg.Hubs) == 0 {
		return nil, errors.New("no address of a server given")
	}
	at, err := newEndpoint(cfg.Dir, cfg.Listen, cfg.TLS, slog.New(newDedupLog(cfg.Log.Handler())))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	public, err := cfg.Identity.Key.PublicKey()
	if err != nil {
		return nil, err
	}
	account, err := jwt.DecodeAccountClaims(cfg.Account)
	if err != nil {
		return nil, fmt.Errorf("cannot read account: %w", err)
	}
	r := &Relay{account: account.Subject, own: public}
	if r.trust, err = newTrust(); err != nil {
		return nil, err
	}
	//nolint:contextcheck // a handshake outlives the start
	r.srv, r.port, err = at.start(func() (*server.Options, error) {
		opts, err := r.trust.options(account)
		if err != nil {
			return nil, err
		}
		// A broker ends the connection of a proxy when another one comes by the same name, whoever that is.
		opts.ServerName = "proxy-" + rand.Text()
		opts.LeafNode.ReconnectInterval = leafRetry
		opts.ReconnectErrorReports = leafReports
		opts.LeafNode.Remotes = []*server.RemoteLeafOpts{remote(cfg, account.Subject)}
		return opts, nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// remote is the configuration of the connection to the hubs.
func remote(cfg RelayConfig, account string) *server.RemoteLeafOpts {
	o := &server.RemoteLeafOpts{
		LocalAccount:     account,
		DialTimeout:      leafDialTimeout,
		FirstInfoTimeout: leafInfoTimeout,
		SignatureCB: func(challenge []byte) (string, []byte, error) {
			signature, err := fabric.SignChallenge(cfg.Identity.Key, challenge)
			return cfg.Identity.JWT, signature, err
		},
		IgnoreDiscoveredServers: true,
	}
	scheme := "nats-leaf"
	if cfg.HubTLS != nil {
		scheme = "tls"
		o.TLS, o.TLSConfig, o.TLSHandshakeFirst, o.TLSTimeout = true, cfg.HubTLS, true, tlsTimeout
	}
	for _, hub := range cfg.Hubs {
		o.URLs = append(o.URLs, &url.URL{Scheme: scheme, Host: hub})
	}
	return o
}

// URL returns the address for clients on this machine.
func (r *Relay) URL() string { return r.srv.ClientURL() }

// Port returns the port of the listener.
func (r *Relay) Port() int { return r.port }

// Clients returns the number of connected clients, including the proxy itself.
func (r *Relay) Clients() int { return r.srv.NumClients() }

// Joined reports whether this side has a connection to a hub.
func (r *Relay) Joined() bool { return r.srv.NumLeafNodes() > 0 }

// Rejoin ends the connection to the hub, if there is one, and reconnects to any hub.
func (r *Relay) Rejoin() error {
	list, err := r.srv.Leafz(nil)
	if err != nil {
		return fmt.Errorf("cannot list connections to the server: %w", err)
	}
	for _, leaf := range list.Leafs {
		// This fails only if the connection has ended meanwhile.
		_ = r.srv.DisconnectClientByID(leaf.ID)
	}
	return nil
}

// SendAway ends the connections of all clients but the proxy's own. Clients that know another address try that one
// first.
func (r *Relay) SendAway() error {
	list, err := r.srv.Connz(&server.ConnzOptions{Username: true, Limit: r.srv.NumClients() + listGrowth})
	if err != nil {
		return fmt.Errorf("cannot list connections: %w", err)
	}
	for _, conn := range list.Conns {
		if conn.Kind == "Client" && conn.AuthorizedUser != r.own { // the list has the connection to the hub, too
			_ = r.srv.DisconnectClientByID(conn.Cid) // this fails only if the connection has ended meanwhile
		}
	}
	return nil
}

// Update replaces the account by its JWT; clients that it no longer accepts are disconnected before Update returns. It
// fails for another account than that of the start.
func (r *Relay) Update(account string) error {
	claims, err := jwt.DecodeAccountClaims(account)
	if err != nil {
		return fmt.Errorf("cannot read account: %w", err)
	}
	if claims.Subject != r.account {
		return fmt.Errorf("cannot use account: expected %s, got %s", r.account, claims.Subject)
	}
	return r.trust.apply(claims, r.srv)
}

// Shutdown ends the server and every connection, and waits for that. Later calls do nothing.
func (r *Relay) Shutdown() { shutdown(r.srv) }
