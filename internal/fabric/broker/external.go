package broker

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/fabric"
	"drover/internal/idle"
)

const (
	// claimsUpdate is the subject on which brokers receive changed accounts.
	claimsUpdate = "$SYS.REQ.CLAIMS.UPDATE"
	// pushEvery is the interval at which all brokers receive the account again: a broker that was down has missed
	// changes.
	pushEvery = time.Minute
	pushTime  = 5 * time.Second
	// pushAgain is when a changed account is sent once more. Brokers that copy accounts from each other compare their
	// times in whole seconds, so the earlier one of two accounts of one second may win.
	pushAgain = 2 * time.Second
	// nodePing is the interval at which an external broker pings its clients. If the machine of a server is gone,
	// reports for that server are lost until the broker notices.
	nodePing = 10 * time.Second
)

// ExternalConfig configures a fabric of external brokers, and the rights of agents and proxies.
type ExternalConfig struct {
	// Dir holds the keys. It is made (0700) at the first start.
	Dir string
	// URLs are the addresses of the brokers.
	URLs []string
	// TLS verifies the brokers.
	TLS *tls.Config
	Log *slog.Logger
	// Revoked, Signers, Agents and Proxies are as in Config.
	Revoked []string
	// Reread returns the revoked keys, which other servers change too; nil if there are no other servers.
	Reread          func(ctx context.Context) ([]string, error)
	Signers         Signers
	Agents, Proxies Rights
	// Operators are further signers of servers that ConfigureNode makes a broker accept, because they signed the
	// account before those of Signers or will sign it after them.
	Operators []nkeys.KeyPair
}

// External is a fabric of external brokers with the configuration of ConfigureNode. They trust the same keys as an
// embedded broker; messages carry the revoked keys to them.
type External struct {
	cfg       ExternalConfig
	authority *authority
	own       *serverUser
	system    *serverUser
	changed   chan struct{}

	mu   sync.Mutex
	conn *fabric.Conn // nil before Run
}

// OpenExternal opens or makes the keys. It does not connect before Run.
func OpenExternal(cfg ExternalConfig) (*External, error) {
	x := &External{cfg: cfg, changed: make(chan struct{}, 1)}
	var err error
	if x.authority, err = openAuthority(cfg.Dir, cfg.Signers, cfg.Agents, cfg.Proxies); err != nil {
		return nil, fmt.Errorf("cannot open fabric: %w", err)
	}
	x.authority.setRevoked(cfg.Revoked)
	if x.own, err = x.authority.newServerUser(x.authority.account); err != nil {
		return nil, fmt.Errorf("cannot open fabric: %w", err)
	}
	if x.system, err = x.authority.newServerUser(x.authority.system, claimsUpdate); err != nil {
		return nil, fmt.Errorf("cannot open fabric: %w", err)
	}
	return x, nil
}

// URLs returns the addresses for servers.
func (x *External) URLs() []string { return x.cfg.URLs }

// ServerIdentity is like Broker.ServerIdentity.
func (x *External) ServerIdentity() fabric.Identity { return x.own.identity() }

// IssueAgent is like Broker.IssueAgent.
func (x *External) IssueAgent(publicNKey string, area int) (string, error) {
	return x.authority.issue(x.authority.agents.Load(), publicNKey, area)
}

// IssueProxy is like Broker.IssueProxy.
func (x *External) IssueProxy(publicNKey string, area int) (string, error) {
	return x.authority.issue(x.authority.proxies.Load(), publicNKey, area)
}

// Account is like Broker.Account.
func (x *External) Account() (string, error) {
	x.authority.mu.Lock()
	defer x.authority.mu.Unlock()
	return x.authority.accountToken()
}

// Revoke is like Broker.Revoke. When it returns, the connected brokers know the change; without a link they get it
// after the next connect.
func (x *External) Revoke(publicNKey string) error {
	x.mark(publicNKey, true)
	return nil
}

// Restore makes the credentials of an agent or a proxy valid again.
func (x *External) Restore(publicNKey string) error {
	if x.authority.toRestore(publicNKey) {
		x.mark(publicNKey, false)
	}
	return nil
}

// mark revokes or restores a key. The brokers receive the list of all revoked keys, so the list must include the
// changes of other servers.
func (x *External) mark(publicNKey string, revoked bool) {
	x.set(func() { x.authority.mark(publicNKey, revoked) })
	x.reread(context.Background())
	x.tell()
}

// SetSigners is like Broker.SetSigners.
func (x *External) SetSigners(s Signers) error {
	x.change(func() { x.authority.setSigners(s) })
	return nil
}

// RefreshRevoked is like Broker.RefreshRevoked.
func (x *External) RefreshRevoked(read func() ([]string, error)) error {
	return x.authority.refresh(read, func(change func()) error {
		x.change(change)
		return nil
	})
}

// reread reloads the revoked keys. If it cannot read them, the known keys stay revoked.
func (x *External) reread(ctx context.Context) {
	if x.cfg.Reread == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	err := x.authority.refresh(func() ([]string, error) { return x.cfg.Reread(ctx) }, func(change func()) error {
		x.set(change)
		return nil
	})
	if err != nil {
		x.cfg.Log.WarnContext(ctx, "cannot reload the revoked keys", "error", err)
	}
}

// set changes the account, and sends nothing.
func (x *External) set(change func()) {
	x.authority.mu.Lock()
	defer x.authority.mu.Unlock()
	change()
}

// change changes the account, and sends it to the brokers.
func (x *External) change(change func()) {
	x.set(change)
	x.tell()
}

// tell sends the account to the brokers.
func (x *External) tell() {
	x.mu.Lock()
	conn := x.conn
	x.mu.Unlock()
	if conn == nil {
		return // Run sends the account first
	}
	if err := x.push(context.Background(), conn); err != nil {
		x.cfg.Log.Warn("cannot send the account to the brokers, retrying later", "error", err)
		x.again()
	}
	time.AfterFunc(pushAgain, x.again)
}

// again makes Run send the account once more.
func (x *External) again() { idle.Wake(x.changed) }

// Run sends the brokers every change of the account, until ctx ends.
func (x *External) Run(ctx context.Context) error {
	conn, err := fabric.Dial(ctx, fabric.DialConfig{
		URLs: x.cfg.URLs, Identity: x.system.identity(), Token: x.system.token, TLS: x.cfg.TLS,
		Name:        "server, for the system account",
		Log:         x.cfg.Log.With("account", "system"),
		OnConnected: x.again,
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return nil
	case err != nil:
		return err
	}
	defer conn.Close()
	x.mu.Lock()
	x.conn = conn
	x.mu.Unlock()
	ticker := time.NewTicker(pushEvery)
	defer ticker.Stop()
	for {
		x.reread(ctx)
		if err := x.push(ctx, conn); err != nil && ctx.Err() == nil && !errors.Is(err, fabric.ErrNotConnected) {
			x.cfg.Log.WarnContext(ctx, "cannot send the revoked keys to the brokers", "error", err)
		}
		select {
		case <-x.changed:
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// push sends both accounts to all connected brokers.
func (x *External) push(ctx context.Context, conn *fabric.Conn) error {
	// The lock is held until the messages are sent, so that the later of two accounts arrives last.
	x.authority.mu.Lock()
	defer x.authority.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	for _, account := range []func() (string, error){x.authority.systemToken, x.authority.accountToken} {
		token, err := account()
		if err != nil {
			return err
		}
		if err := x.pushOne(ctx, conn, token); err != nil {
			return err
		}
	}
	return nil
}

// pushOne sends an account. One broker answers for all: each applies it by itself.
func (x *External) pushOne(ctx context.Context, conn *fabric.Conn, token string) error {
	reply, err := conn.Request(ctx, claimsUpdate, []byte(token))
	if err != nil {
		return fmt.Errorf("cannot send the account to the brokers: %w", err)
	}
	var answer struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply, &answer); err != nil {
		return fmt.Errorf("cannot read the answer of a broker: %w", err)
	}
	if answer.Error != nil {
		return fmt.Errorf("cannot send the account to the brokers: %s", answer.Error.Description)
	}
	return nil
}
