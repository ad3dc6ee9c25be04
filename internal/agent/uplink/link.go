// Package uplink is the agent's link to its server: the connection, what the agent trusts, and how it stands with the
// server. It makes no reports and executes no orders: packages report and orders do.
package uplink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nkeys"

	"drover/internal/agent/uplink/standing"
	"drover/internal/fabric"
	"drover/internal/wire"
)

// Heartbeat is how often the agent reports at least.
const Heartbeat = 5 * time.Second

// Link is the agent's connection to its server, with the agent's standing there. It exists before there is a
// connection. It signs the messages that the server keeps, and verifies the messages of the server. It is safe for
// concurrent use.
type Link struct {
	*Standing
	dial  fabric.DialConfig
	key   string
	trust *trust
	log   *slog.Logger

	mu sync.Mutex
	// dialled is closed while conn is set; the connection may be down. The connection serves orders.
	dialled  chan struct{}
	conn     *fabric.Conn
	subject  string
	watchdog answerWatchdog
}

// Open returns the link of the agent with this key, whose directory must hold an enrolment. Run makes the connection.
func Open(dir string, key nkeys.KeyPair, log *slog.Logger) (*Link, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot read agent key: %w", err)
	}
	t, err := openTrust(dir, public, log)
	if err != nil {
		return nil, err
	}
	dial := fabric.DialConfig{
		Identity: fabric.Identity{Key: key, Area: strconv.Itoa(t.current().Cloud)},
		Token:    func() string { return t.current().JWT },
		TLS:      t.tls(), Name: "agent " + public, Log: log,
	}
	return &Link{
		Standing: NewStanding(log), dial: dial, key: public, trust: t, log: log, dialled: make(chan struct{}),
	}, nil
}

// Key returns the agent's public key, which is its name on the fabric.
func (l *Link) Key() string { return l.key }

// HostName returns the name by which callers know this host: its id, or else CLOUD:IP.
func (l *Link) HostName() string {
	e := l.trust.current()
	return cmp.Or(e.ID, fmt.Sprintf("%d:%s", e.Cloud, e.IP))
}

// OpenManifest verifies a manifest that the server has sent.
func (l *Link) OpenManifest(sealed []byte) (*wire.Manifest, error) { return l.trust.open(sealed) }

// SealReceipt signs the receipt of a manifest.
func (l *Link) SealReceipt(receipt, manifest []byte) ([]byte, error) {
	return wire.SealReceipt(receipt, manifest, l.dial.Identity.Key)
}

// RenewTrust applies a sealed manifest with new trust. It logs a rejected manifest.
func (l *Link) RenewTrust(sealed []byte) {
	if _, err := l.trust.adopt(sealed); err != nil {
		l.log.Error("cannot renew trust", "error", err)
	}
}

// CompleteReport adds to a report the agent's trust and its identity.
func (l *Link) CompleteReport(r *wire.Report) {
	e := l.trust.current()
	held := e.TrustHeld // a pointer into e would keep all of e in memory with the report
	r.Trust = &held
	if r.Hello != nil {
		r.Hello.Cloud, r.Hello.IP, r.Hello.ID = e.Cloud, e.IP, e.ID
	}
}

// Ready reports whether an order that the server sends now would arrive.
func (l *Link) Ready() bool {
	l.mu.Lock()
	serving := l.conn != nil
	l.mu.Unlock()
	return serving && l.Now().State != standing.Offline
}

const (
	// watchdogTimeout is how long reports may go unanswered over a working link before the agent tries another
	// address: three heartbeats. That happens, for example, if a proxy has lost its own connection to the servers.
	watchdogTimeout = 3 * Heartbeat
	// maxWatchdogTimeout is the longest timeout after several changes of the address without success.
	maxWatchdogTimeout = 8 * watchdogTimeout
)

// answerWatchdog measures how long there has been no answer.
type answerWatchdog struct {
	since    time.Time     // when the first unanswered report was sent; zero if the last report was answered
	patience time.Duration // 0 means watchdogTimeout
}

// note records the result of a report that was sent at sent, and reports whether to try another address.
func (w *answerWatchdog) note(err error, sent, now time.Time) bool {
	if w.since.IsZero() {
		w.since = sent
	}
	switch {
	case err == nil:
		*w = answerWatchdog{}
	case errors.Is(err, fabric.ErrNotConnected): // the connection already tries other addresses
		w.since = time.Time{}
	case now.Sub(w.since) >= max(w.patience, watchdogTimeout):
		*w = answerWatchdog{patience: min(2*max(w.patience, watchdogTimeout), maxWatchdogTimeout)}
		return true
	}
	return false
}

// use sends reports over a connection, until drop is called.
func (l *Link) use(conn *fabric.Conn, subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.subject = conn, subject
	close(l.dialled)
}

// drop makes reports wait for another connection.
func (l *Link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.dialled = nil, make(chan struct{})
}

// Report implements report.Link. It waits until there has been an attempt at a connection. When reports have not been
// answered by the server for some time, the next address is tried.
func (l *Link) Report(ctx context.Context, data []byte) ([]byte, error) {
	conn, subject, err := l.connection(ctx)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	reply, err := l.exchange(ctx, conn, subject, data)
	l.mu.Lock()
	elsewhere := l.watchdog.note(err, sent, time.Now())
	l.mu.Unlock()
	if elsewhere {
		conn.Elsewhere()
	}
	return reply, err
}

// Package sends a question about a package of the agent, and returns the answer. Nobody signs either: the owner of the
// host has signed what the answers hold.
func (l *Link) Package(ctx context.Context, question []byte) ([]byte, error) {
	conn, _, err := l.connection(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Request(ctx, wire.PackageSubject(l.trust.current().Cloud, l.key), question)
}

// connection returns the current connection and the subject of reports.
func (l *Link) connection(ctx context.Context) (conn *fabric.Conn, subject string, err error) {
	for {
		l.mu.Lock()
		dialled := l.dialled
		conn, subject = l.conn, l.subject
		l.mu.Unlock()
		if conn != nil {
			return conn, subject, nil
		}
		select {
		case <-dialled:
		case <-ctx.Done():
			return nil, "", fabric.ErrNotConnected
		}
	}
}

// longestUnsigned is the longest answer to a heartbeat that the agent reads, in bytes: the answer may carry new trust.
const longestUnsigned = 256 << 10

// exchange sends a report and returns the server's answer. The answer to a heartbeat is unsigned, so nothing may
// depend on it.
func (l *Link) exchange(ctx context.Context, conn *fabric.Conn, subject string, data []byte) ([]byte, error) {
	if !wire.HasContent(data) {
		reply, err := conn.Request(ctx, subject, data)
		if len(reply) > longestUnsigned {
			return nil, fmt.Errorf("unsigned answer of %d bytes refused: expected at most %d", len(reply),
				longestUnsigned)
		}
		return reply, err
	}
	signed, err := wire.SealReport(data, l.trust.current().Fleet, l.dial.Identity.Key)
	if err != nil {
		return nil, err
	}
	reply, err := conn.Request(ctx, subject, signed)
	if err != nil {
		return nil, err
	}
	return l.trust.answer(reply, data)
}
