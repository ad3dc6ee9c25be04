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

	"drover/internal/agent/uplink/linkstate"
	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/wire"
)

// Heartbeat is how often the agent reports at least, unless its server allows longer silence.
const Heartbeat = 5 * time.Second

// Link is the agent's connection to its server, with the state of that link. It exists before there is a
// connection. It opens the messages of the server and seals those of the agent. It is safe for concurrent use.
type Link struct {
	*LinkState
	dial  fabric.DialConfig
	key   string
	trust *trust
	// sealing has the keys of sealed messages, and clock is the clock of the servers as their answers show it.
	sealing *frame.Keys
	clock   *frame.Clock
	log     *slog.Logger

	mu sync.Mutex
	// dialled is closed while conn is set; the connection may be down. The connection serves orders.
	dialled  chan struct{}
	conn     *fabric.Conn
	subject  string
	watchdog answerWatchdog
	// announced is set while the report under way has the agent's new sealing key.
	announced bool
}

// Keys are the private keys of an agent: the one that is its name on the fabric, and those of sealed messages.
type Keys struct {
	Name    nkeys.KeyPair
	Sealing *frame.Keys
}

// Open returns the link of the agent with these keys, whose directory must hold an enrolment. boot is the time since
// boot. Run makes the connection.
func Open(dir string, keys Keys, boot func() time.Duration, log *slog.Logger) (*Link, error) {
	public, err := keys.Name.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot read agent key: %w", err)
	}
	t, err := openTrust(dir, public, log)
	if err != nil {
		return nil, err
	}
	if err := keys.Sealing.Follow(t.current().SealingKeys); err != nil {
		return nil, err
	}
	dial := fabric.DialConfig{
		Identity: fabric.Identity{Key: keys.Name, Area: strconv.Itoa(t.current().Cloud)},
		Token:    func() string { return t.current().JWT },
		TLS:      t.tls(), Session: &fabric.Session{}, NoPings: true, Name: "agent " + public, Log: log,
	}
	return &Link{
		LinkState: NewLinkState(log), dial: dial, key: public, trust: t, sealing: keys.Sealing,
		clock: frame.NewClock(boot), log: log, dialled: make(chan struct{}),
	}, nil
}

// Key returns the agent's public key, which is its name on the fabric.
func (l *Link) Key() string { return l.key }

// HostName returns the name by which callers know this host: its id, or else CLOUD:IP.
func (l *Link) HostName() string {
	e := l.trust.current()
	return cmp.Or(e.ID, fmt.Sprintf("%d:%s", e.Cloud, e.IP))
}

// RenewTrust applies new trust, signed as wire.SealTrust does, and reports whether it is new. It logs the reason if it
// rejects the trust.
func (l *Link) RenewTrust(sealed []byte) bool {
	renewed, err := l.trust.adopt(sealed)
	if err != nil {
		l.log.Error("cannot renew trust", "error", err)
	}
	if renewed {
		if err := l.sealing.Follow(l.trust.current().SealingKeys); err != nil {
			l.log.Error("cannot replace own sealing key", "error", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if renewed && l.conn != nil {
		l.conn.RenewSession()
	}
	return renewed
}

// CompleteReport adds to a report the agent's trust, its identity, and its new sealing key if it has one.
func (l *Link) CompleteReport(r *wire.Report) {
	e := l.trust.current()
	held := e.TrustHeld // a pointer into e would keep all of e in memory with the report
	r.Trust = &held
	r.Sealing = l.newSealing(e.Fleet)
	if r.Hello != nil {
		r.Hello.Cloud, r.Hello.IP, r.Hello.ID = e.Cloud, e.IP, e.ID
	}
}

// newSealing returns the signed change to the agent's newest sealing key; nil if the servers have that key, or if the
// agent does not know their clock yet.
func (l *Link) newSealing(fleet string) []byte {
	public, since, announce := l.sealing.Newest()
	c := wire.SealingChange{Key: public, Since: since, At: l.clock.Now()}
	var signed []byte
	if announce && !c.At.IsZero() {
		var err error
		if signed, err = wire.SignSealing(c, fleet, l.dial.Identity.Key); err != nil {
			l.log.Error("cannot announce own sealing key", "error", err)
		}
	}
	l.mu.Lock()
	l.announced = len(signed) > 0
	l.mu.Unlock()
	return signed
}

// Ready reports whether an order that the server sends now would arrive.
func (l *Link) Ready() bool {
	l.mu.Lock()
	serving := l.conn != nil
	l.mu.Unlock()
	return serving && l.Now().State != linkstate.Offline
}

const (
	// watchdogTimeout is how long reports may go unanswered over a working link before the agent doubts the link. That
	// happens, for example, if a proxy has lost its own connection to the servers.
	watchdogTimeout = 15 * time.Second
	// maxWatchdogTimeout is the longest timeout after several doubts without success.
	maxWatchdogTimeout = 8 * watchdogTimeout
)

// answerWatchdog measures how long there has been no answer.
type answerWatchdog struct {
	since    time.Time     // when the first unanswered report was sent; zero if the last report was answered
	patience time.Duration // 0 means watchdogTimeout
}

// recordResult records the result of a report that was sent at sent, and reports whether to doubt the link.
func (w *answerWatchdog) recordResult(err error, sent, now time.Time) bool {
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

// Report implements report.Link. It waits until there has been an attempt at a connection. When the server has not
// answered reports for some time, Report makes the connection prove itself, which takes up to 10 s.
func (l *Link) Report(ctx context.Context, data []byte) ([]byte, error) {
	conn, subject, err := l.connection(ctx)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	reply, err := l.exchange(ctx, func(ctx context.Context, sealed []byte) ([]byte, error) {
		return conn.Request(ctx, subject, sealed)
	}, data)
	l.mu.Lock()
	doubted := l.watchdog.recordResult(err, sent, time.Now())
	if err == nil && l.announced {
		l.sealing.Taken()
		l.announced = false
	}
	l.mu.Unlock()
	if doubted {
		conn.Unanswered()
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

// request sends a frame to the servers, and returns what comes back.
type request func(ctx context.Context, sealed []byte) (reply []byte, err error)

// exchange sends a report, and returns the server's answer to it. Servers take no report without its time. So an agent
// that does not know their clock first sends an empty report, whose answer has the time.
func (l *Link) exchange(ctx context.Context, send request, report []byte) ([]byte, error) {
	if l.clock.Now().IsZero() {
		if _, err := l.ask(ctx, send, nil); err != nil {
			return nil, err
		}
	}
	return l.ask(ctx, send, report)
}

// ask seals a report, and opens the server's answer to it.
func (l *Link) ask(ctx context.Context, send request, report []byte) ([]byte, error) {
	e := l.trust.current()
	pair, err := l.sealing.Present(e.Fleet, e.SealingKeys)
	if err != nil {
		return nil, err
	}
	sealed, nonce, err := pair.Seal(frame.Report, l.clock.Now(), frame.Nonce{}, report)
	if err != nil {
		return nil, err
	}
	asked := l.clock.Reading()
	reply, err := send(ctx, sealed)
	if err != nil {
		return nil, err
	}
	head, answer, err := pair.Open(frame.Ack, reply, nonce)
	if err := l.sealing.Answered(pair, e.SealingKeys, err); err != nil {
		l.log.Error("cannot drop former sealing key", "error", err)
	}
	if err != nil {
		return nil, fmt.Errorf("answer refused: %w", err)
	}
	l.clock.Set(head.Time, asked)
	return answer, nil
}
