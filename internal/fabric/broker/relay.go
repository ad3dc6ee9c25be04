package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"drover/internal/fabric"
)

const (
	leafRetry       = time.Second // and up to as much again, at random
	leafReports     = 600         // of so many failed attempts one is told of
	leafDialTimeout = 5 * time.Second
	leafInfoTimeout = 5 * time.Second
)

// RelayConfig says where a relay listens and to whom it joins those who connect.
type RelayConfig struct {
	// Dir holds the last port. It is made (0700) at the first start.
	Dir string
	// Listen is the address and port for agents. Port 0 means the port of last time if it is free, else any.
	Listen string
	// TLS is what the listener shows; nil is for loopback only.
	TLS *tls.Config
	// Trust says whom to let in.
	Trust Trust
	// Hubs are where brokers listen for proxies, host:port; one of them is joined. HubTLS is how they are verified; nil without TLS.
	Hubs   []string
	HubTLS *tls.Config
	// Identity is the proxy's own.
	Identity fabric.Identity
	Log      *slog.Logger
}

// Relay is a running server that agents of one area connect to, joined to a broker as a leaf node. What it may carry is decided there. It
// lets agents in without asking the broker, and goes on looking for one for ever.
type Relay struct {
	srv   *server.Server
	port  int
	trust string // the operator, which does not change
}

// StartRelay starts a relay; it takes connections when StartRelay returns, joined or not. It fails if ctx has ended, if what it is to
// trust can't be read or if the address can't be listened on.
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
	at, err := newEndpoint(cfg.Dir, cfg.Listen, cfg.TLS, slog.New(newRarely(cfg.Log.Handler())))
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
	account, err := cfg.Trust.account()
	if err != nil {
		return nil, err
	}
	r := &Relay{trust: cfg.Trust.Operator}
	r.srv, r.port, err = at.start(func() (*server.Options, error) { //nolint:contextcheck // a handshake outlives the start
		opts, err := cfg.Trust.options()
		if err != nil {
			return nil, err
		}
		opts.ServerName = "proxy-" + public
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

// remote is the way to the hubs.
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

// URL returns where clients on this machine connect.
func (r *Relay) URL() string { return r.srv.ClientURL() }

// Port returns the port that is listened on.
func (r *Relay) Port() int { return r.port }

// Clients returns how many are connected, the proxy itself among them.
func (r *Relay) Clients() int { return r.srv.NumClients() }

// Joined reports whether there is a connection to a hub, as far as this side knows.
func (r *Relay) Joined() bool { return r.srv.NumLeafNodes() > 0 }

// Rejoin ends the connection to the hub, if there is one, and has it made anew, to any of them.
func (r *Relay) Rejoin() error {
	list, err := r.srv.Leafz(nil)
	if err != nil {
		return fmt.Errorf("cannot list connections to the server: %w", err)
	}
	for _, leaf := range list.Leafs {
		// It fails only where the connection has ended meanwhile.
		_ = r.srv.DisconnectClientByID(leaf.ID)
	}
	return nil
}

// Update tells the relay whom to let in from now on; others are cut off before it returns. The account has to be vouched for by the
// operator that the relay was started with.
func (r *Relay) Update(account string) error {
	return Trust{Operator: r.trust, Account: account}.apply(r.srv)
}

// Shutdown ends the server and every connection, and waits for that. Later calls do nothing.
func (r *Relay) Shutdown() { shutdown(r.srv) }
