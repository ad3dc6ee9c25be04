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

	"drover/internal/fabric"
)

const (
	// claimsUpdate is where brokers are told of accounts that have changed.
	claimsUpdate = "$SYS.REQ.CLAIMS.UPDATE"
	// pushEvery is how often all brokers are told again: one that was down has missed what the others were told.
	pushEvery = time.Minute
	pushTime  = 5 * time.Second
	// nodePing is how often such a broker looks whether clients are there: the reports that it has for a server whose machine is gone are
	// lost until it has noticed.
	nodePing = 10 * time.Second
)

// ExternalConfig says which brokers that somebody else runs are the fabric, and what agents and proxies may do.
type ExternalConfig struct {
	// Dir holds the keys. It is made (0700) at the first start.
	Dir string
	// URLs are those of the brokers.
	URLs []string
	// TLS is how they are verified.
	TLS *tls.Config
	Log *slog.Logger
	// Revoked, Signers, Agents and Proxies are as in Config.
	Revoked []string
	// Reread returns who is revoked by now, which other servers change too; nil: nobody else does.
	Reread          func(ctx context.Context) ([]string, error)
	Signers         Signers
	Agents, Proxies Rights
}

// External is a fabric of brokers that somebody else runs, with the configuration that ConfigureNode has made. They trust the same keys
// as an embedded one would; who is revoked they are told by messages.
type External struct {
	cfg       ExternalConfig
	authority *authority
	own       fabric.Identity
	system    fabric.Identity
	changed   chan struct{}

	mu   sync.Mutex
	conn *fabric.Conn // nil before Run
}

// OpenExternal opens or makes the keys. It connects to nobody before Run.
func OpenExternal(cfg ExternalConfig) (*External, error) {
	x := &External{cfg: cfg, changed: make(chan struct{}, 1)}
	var err error
	if x.authority, err = openAuthority(cfg.Dir, cfg.Signers, cfg.Agents, cfg.Proxies); err != nil {
		return nil, fmt.Errorf("cannot open fabric: %w", err)
	}
	x.authority.setRevoked(cfg.Revoked)
	if x.own, err = x.authority.newServer(); err != nil {
		return nil, fmt.Errorf("cannot open fabric: %w", err)
	}
	if x.system, err = newServerUser(x.authority.system, claimsUpdate); err != nil {
		return nil, fmt.Errorf("cannot open fabric: %w", err)
	}
	return x, nil
}

// URLs returns where servers connect.
func (x *External) URLs() []string { return x.cfg.URLs }

// ServerIdentity returns the identity of this server, made at this start: every right in the account.
func (x *External) ServerIdentity() fabric.Identity { return x.own }

// IssueAgent is as that of Broker.
func (x *External) IssueAgent(publicNKey string, area int) (string, error) {
	return x.authority.issue(*x.authority.agents.Load(), publicNKey, area)
}

// IssueProxy is as that of Broker.
func (x *External) IssueProxy(publicNKey string, area int) (string, error) {
	return x.authority.issue(x.authority.proxies, publicNKey, area)
}

// Trust returns what a Relay lets users in by. It changes with Revoke, Restore and Revoked.
func (x *External) Trust() (Trust, error) {
	x.authority.mu.Lock()
	defer x.authority.mu.Unlock()
	return x.authority.trust()
}

// Revoke ends the credentials of an agent or a proxy, as that of Broker. The brokers that are there have been told when it returns;
// where there is no link they are told once there is one.
func (x *External) Revoke(publicNKey string) error {
	x.mark(publicNKey, true)
	return nil
}

// Restore makes the credentials of an agent or a proxy count again.
func (x *External) Restore(publicNKey string) error {
	if x.authority.toRestore(publicNKey) {
		x.mark(publicNKey, false)
	}
	return nil
}

// mark revokes or restores one. As the brokers are told of all that are revoked, those that another server has changed must be among them.
func (x *External) mark(publicNKey string, revoked bool) {
	x.set(func() { x.authority.mark(publicNKey, revoked) })
	x.reread(context.Background())
	x.tell()
}

// SetAgentSigners is as that of Broker.
func (x *External) SetAgentSigners(s Signers) error {
	x.change(func() { x.authority.setAgentSigners(s) })
	return nil
}

// RefreshRevoked is as that of Broker.
func (x *External) RefreshRevoked(read func() ([]string, error)) error {
	return x.authority.refresh(read, func(change func()) error {
		x.change(change)
		return nil
	})
}

// reread takes in who is revoked by now. Where that cannot be read, what was known before counts on.
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

// set changes the account, and tells nobody.
func (x *External) set(change func()) {
	x.authority.mu.Lock()
	defer x.authority.mu.Unlock()
	change()
}

// change changes the account, and tells the brokers.
func (x *External) change(change func()) {
	x.set(change)
	x.tell()
}

// tell tells the brokers of the account.
func (x *External) tell() {
	x.mu.Lock()
	conn := x.conn
	x.mu.Unlock()
	if conn == nil {
		return // Run begins with it
	}
	if err := x.push(context.Background(), conn); err != nil {
		x.cfg.Log.Warn("cannot send the account to the brokers, retrying later", "error", err)
		x.again()
	}
}

// again has Run tell the brokers once more.
func (x *External) again() {
	select {
	case x.changed <- struct{}{}:
	default:
	}
}

// Run keeps the brokers told of who may be in the account, until ctx ends.
func (x *External) Run(ctx context.Context) error {
	conn, err := fabric.Dial(ctx, fabric.DialConfig{
		URLs: x.cfg.URLs, Identity: x.system, TLS: x.cfg.TLS, Name: "server, for the system account", Log: x.cfg.Log.With("account", "system"),
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

// push tells all brokers that are there of the account. One answers for all: each takes it by itself.
func (x *External) push(ctx context.Context, conn *fabric.Conn) error {
	// The lock is held until it has gone out, so that of two accounts the later one comes last.
	x.authority.mu.Lock()
	defer x.authority.mu.Unlock()
	token, err := x.authority.accountToken()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
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
