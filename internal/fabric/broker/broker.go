// Package broker embeds a NATS server for the fabric: operator mode, one account, core NATS over TCP, nothing else. It owns
// the server, its keys and the rights of those who connect; it knows neither messages nor who may join. Who only talks
// to a broker imports fabric instead and links no server.
package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"drover/internal/fabric"
)

const (
	authTimeout   = 15 // seconds; a whole fleet comes back at once
	tlsTimeout    = 15 // seconds
	pingInterval  = 20 * time.Second
	maxPingsOut   = 2
	writeDeadline = 10 * time.Second
	closedKept    = 16 // ended connections remembered; nobody asks about them
	portFile      = "port"
)

// Config says where the broker listens and what agents may do.
type Config struct {
	// Dir holds the keys and the last port. It is made (0700) at the first start.
	Dir string
	// Listen is the address and port. Port 0 means the port of last time if it is free, else any.
	Listen string
	Log    *slog.Logger
	// TLS is what the listener shows; nil is for loopback only. Whoever connects shakes hands before anything else.
	TLS *tls.Config
	// Revoked are the public keys of agents whose credentials do not count.
	Revoked []string
	// AgentPublish and AgentSubscribe are the subjects of an agent; {{subject()}} stands for its public key. Beyond them it
	// may await replies in its own inbox and answer the requests that it got.
	AgentPublish, AgentSubscribe []string
}

// Broker is a running embedded server.
type Broker struct {
	authority *authority
	srv       *server.Server
	port      int
	own       fabric.Identity
}

// errListen marks a failure of the address alone.
var errListen = errors.New("cannot listen")

// Start opens or makes the keys and starts the server; it takes connections when Start returns. It fails if ctx has
// ended, if a key can't be used or if the address can't be listened on.
func Start(ctx context.Context, cfg Config) (*Broker, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("cannot start broker: %w", err)
	}
	host, portText, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot start broker: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("cannot start broker: port %q is no number from 0 to 65535", portText)
	}
	auth, err := openAuthority(cfg.Dir, cfg.AgentPublish, cfg.AgentSubscribe)
	if err != nil {
		return nil, fmt.Errorf("cannot start broker: %w", err)
	}
	auth.revokeAll(cfg.Revoked)
	b := &Broker{authority: auth}
	if b.own, err = auth.newServer(); err != nil {
		return nil, fmt.Errorf("cannot start broker: %w", err)
	}
	if err := b.listen(cfg, host, int(port)); err != nil {
		return nil, fmt.Errorf("cannot start broker: %w", err)
	}
	if err := rememberPort(cfg.Dir, b.port); err != nil {
		b.Shutdown()
		return nil, fmt.Errorf("cannot start broker: %w", err)
	}
	return b, nil
}

// listen starts the server on the port wanted: agents know only the one of last time, so that one is worth a try.
func (b *Broker) listen(cfg Config, host string, port int) error {
	if port != 0 {
		return b.startServer(cfg, host, port)
	}
	if last := lastPort(cfg.Dir); last != 0 {
		err := b.startServer(cfg, host, last)
		if !errors.Is(err, errListen) {
			return err
		}
		cfg.Log.Warn("broker port of last time was taken by another program", "port", last)
	}
	return b.startServer(cfg, host, server.RANDOM_PORT)
}

func (b *Broker) startServer(cfg Config, host string, port int) error {
	opts, err := b.authority.options()
	if err != nil {
		return err
	}
	opts.Host = host
	opts.Port = port
	opts.ServerName = "drover"
	opts.NoSigs = true
	opts.NoSystemAccount = true
	opts.MaxPayload = fabric.MaxMessage
	opts.AuthTimeout = authTimeout
	opts.PingInterval = pingInterval
	opts.MaxPingsOut = maxPingsOut
	opts.WriteDeadline = writeDeadline
	opts.MaxClosedClients = closedKept
	opts.Cluster.NoAdvertise = true // addresses of our own network are no business of an agent's
	if cfg.TLS != nil {
		opts.TLS, opts.TLSConfig, opts.TLSHandshakeFirst, opts.TLSTimeout = true, cfg.TLS, true, tlsTimeout
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	log := &logBridge{log: cfg.Log}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start() // returns once it accepts connections, or once it has logged why it can't
	reason := log.begun()
	addr, ok := srv.Addr().(*net.TCPAddr)
	if !ok {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("%w on %s: %s", errListen, net.JoinHostPort(host, strconv.Itoa(port)), reason)
	}
	b.srv, b.port = srv, addr.Port
	return nil
}

// URL returns where clients on this machine connect, such as nats://127.0.0.1:4222, or tls:// with TLS.
func (b *Broker) URL() string { return b.srv.ClientURL() }

// Port returns the port that is listened on.
func (b *Broker) Port() int { return b.port }

// ServerIdentity returns the identity of the server itself, made at this start: every right in the account.
func (b *Broker) ServerIdentity() fabric.Identity { return b.own }

// IssueAgent returns a user JWT for the holder of a public user nkey. It carries no rights of its own: the broker fills
// the agents' templates in at each connect, so a later change of them needs no new JWT.
func (b *Broker) IssueAgent(publicNKey string) (string, error) {
	return b.authority.issueAgent(publicNKey)
}

// Revoke ends the credentials of an agent, those that it will be issued too, until Restore: it is cut off before Revoke returns, and
// refused when it comes back. A later start has to be told again.
func (b *Broker) Revoke(publicNKey string) error {
	return b.changeAccount(func() { b.authority.revoked[publicNKey] = true })
}

// Restore makes the credentials of an agent count again.
func (b *Broker) Restore(publicNKey string) error {
	return b.changeAccount(func() { delete(b.authority.revoked, publicNKey) })
}

// changeAccount tells the running server of a change to who may be in the account.
func (b *Broker) changeAccount(change func()) error {
	b.authority.mu.Lock()
	defer b.authority.mu.Unlock()
	change()
	token, err := b.authority.accountToken()
	if err != nil {
		return err
	}
	if err := b.srv.AccountResolver().Store(b.authority.accountID, token); err != nil {
		return fmt.Errorf("cannot store account: %w", err)
	}
	account, err := b.srv.LookupAccount(b.authority.accountID)
	if err != nil {
		return fmt.Errorf("cannot find account: %w", err)
	}
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return fmt.Errorf("cannot read account: %w", err)
	}
	b.srv.UpdateAccountClaims(account, claims)
	return nil
}

// Shutdown ends the server and every connection, and waits for that. Later calls do nothing.
func (b *Broker) Shutdown() {
	b.srv.Shutdown()
	b.srv.WaitForShutdown()
}

// lastPort returns the port of the last start, or 0 when that is not known.
func lastPort(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, portFile))
	if err != nil {
		return 0
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

func rememberPort(dir string, port int) error {
	return os.WriteFile(filepath.Join(dir, portFile), []byte(strconv.Itoa(port)+"\n"), 0o600)
}
