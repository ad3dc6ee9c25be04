package fabric

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"drover/internal/idle"
)

const (
	connectTimeout = 5 * time.Second // to reach one URL
	// to complete a handshake: if a whole fleet connects, each agent waits for its turn
	shakeTimeout = 12 * time.Second
	pingInterval = 20 * time.Second // a silent link is closed after three pings
	maxPingsOut  = 2
	pingTimeout  = 10 * time.Second // for the answer to one ping
	firstDelay   = 250 * time.Millisecond
	longestDelay = 8 * time.Second
	flushTimeout = 2 * time.Second
	drainLimit   = 3 * time.Second
	pendingLimit = 64 << 10 // queued messages per Serve
	pendingBytes = 64 << 20
)

// DialConfig holds the addresses of a broker, and the identity of the client.
type DialConfig struct {
	URLs     []string
	Identity Identity
	// Broker is a broker in this process; the connection to it uses neither a network nor TLS. nil connects to URLs.
	Broker interface{ InProcessConn() (net.Conn, error) }
	// Token returns the user JWT for each connect, if the JWT may be renewed; nil uses the JWT of Identity.
	Token func() string
	// TLS verifies the broker; nil connects without TLS. With TLS, nothing is sent or read before the handshake.
	TLS *tls.Config
	// Session is the TLS session of earlier connections with the same TLS; nil is none.
	Session *Session
	// Replies reports whether a reply to a request on a subject may go to the given reply subject; nil allows the
	// inboxes of the caller.
	Replies func(subject, reply string) bool
	// NoPings leaves out the pings by which a Conn notices that nothing passes over its link. The caller sends requests
	// regularly, and calls Unanswered when they go unanswered.
	NoPings bool
	// Name is shown in the broker's log.
	Name string
	Log  *slog.Logger
	// OnConnected and OnLost, if set, are called whenever the link comes up and goes down, one call at a time. The
	// first call may come before Dial has returned; no call comes after Close has returned. They must return quickly
	// and must not call Close.
	OnConnected, OnLost func()
}

// Conn is a link to the broker that reconnects until it is closed. It is safe for concurrent use.
type Conn struct {
	nc          *nats.Conn
	replies     *replyRouter
	mayReply    func(subject, reply string) bool // nil allows any inbox
	log         *slog.Logger
	onConnected func()
	onLost      func()
	stopDialing context.CancelFunc
	dialer      *dialer
	renewals    sync.WaitGroup
	renewNow    chan struct{}

	link      atomic.Pointer[link] // nil without a link
	searching atomic.Bool          // a failed attempt was logged since the last link
	refused   atomic.Bool          // a rejection was logged since the last link

	calls  sync.Mutex // held while a callback runs
	silent bool       // Close has ended: no further callbacks

	mu        sync.Mutex
	closed    bool
	services  map[*service]struct{}
	admission requestAdmission // of services
}

// link is one uninterrupted connection.
type link struct {
	lost <-chan struct{} // closed by lose
	lose context.CancelFunc
}

// Dial tries each URL once and returns, connected or not. Afterwards it retries in the background, even after
// rejected credentials, with random delays that grow to 8 s. Dial blocks for at most 5 s per unreachable URL and 12 s
// per silent URL. If ctx ends, Dial returns an error. Other errors are faults of the configuration.
func Dial(ctx context.Context, cfg DialConfig) (*Conn, error) {
	if len(cfg.URLs) == 0 && cfg.Broker == nil || cfg.Identity.Area == "" {
		return nil, errors.New("cannot connect to the fabric: no URL or no area given")
	}
	public, err := cfg.Identity.Key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the fabric: %w", err)
	}
	dialing, stopDialing := context.WithCancel(context.WithoutCancel(ctx))
	c := &Conn{
		replies:     newReplyRouter(InboxPrefix(cfg.Identity.Area, public)),
		mayReply:    cfg.Replies,
		log:         cfg.Log,
		onConnected: cfg.OnConnected,
		onLost:      cfg.OnLost,
		stopDialing: stopDialing,
		renewNow:    make(chan struct{}, 1),
		services:    make(map[*service]struct{}),
	}
	up := make(chan struct{})
	stopWatching := context.AfterFunc(ctx, stopDialing)
	c.nc, err = c.options(dialing, cfg, sync.OnceFunc(func() { close(up) })).Connect()
	if err != nil {
		stopDialing()
		return nil, fmt.Errorf("cannot connect to the fabric: %w", err)
	}
	if !stopWatching() {
		c.Close()
		return nil, fmt.Errorf("cannot connect to the fabric: %w", ctx.Err())
	}
	if c.nc.IsConnected() {
		<-up // the library reports the link from another goroutine; Connected must be true when Dial returns
	}
	return c, nil
}

// options overrides every default of the library that gives up, floods, or waits too long.
func (c *Conn) options(dialing context.Context, cfg DialConfig, up func()) nats.Options {
	o := nats.GetDefaultOptions()
	o.Servers = cfg.URLs
	o.Name = cfg.Name
	if cfg.Broker != nil {
		o.InProcessServer, o.Servers = inspectedBroker{cfg.Broker, &c.admission}, []string{"nats://in-process"}
	} else if cfg.TLS != nil {
		o.Secure, o.TLSHandshakeFirst = true, true // the dialer does the TLS handshake
	}
	o.UserJWT = cfg.token
	o.SignatureCB = func(challenge []byte) ([]byte, error) { return SignChallenge(cfg.Identity.Key, challenge) }
	c.dialer = &dialer{
		ctx: dialing, tls: cfg.TLS, unreached: c.unreached,
		admission: &c.admission, session: cmp.Or(cfg.Session, &Session{}),
	}
	o.CustomDialer = c.dialer
	o.SkipHostLookup = true // TLS verifies the name; the dialer looks it up
	o.Timeout = shakeTimeout
	o.PingInterval = cfg.pings()
	o.MaxPingsOut = maxPingsOut
	o.AllowReconnect = true
	o.RetryOnFailedConnect = true
	o.MaxReconnect = -1
	o.IgnoreAuthErrorAbort = true
	o.IgnoreDiscoveredServers = true
	o.ReconnectBufSize = -1 // keep no messages: see the package comment
	o.CustomReconnectDelayCB = fullJitter
	o.NoCallbacksAfterClientClose = true
	//nolint:contextcheck // a link outlives the dialing
	o.ConnectedCB = func(nc *nats.Conn) { c.up(nc.ConnectedUrlRedacted(), up) }
	o.ReconnectedCB = o.ConnectedCB
	o.DisconnectedErrCB = func(_ *nats.Conn, err error) { c.down(err) }
	// Close makes no callbacks, so only an error that the library does not know leads here.
	o.ClosedCB = func(nc *nats.Conn) { c.log.Error("fabric connection closed for good", "error", nc.LastError()) }
	o.ReconnectErrCB = func(_ *nats.Conn, err error) { c.unreached(err) }
	o.AsyncErrorCB = func(_ *nats.Conn, sub *nats.Subscription, err error) {
		if sub != nil {
			c.log.Warn("fabric dropped messages", "subject", sub.Subject, "error", err)
			return
		}
		if unauthorised(err) {
			c.rejectedByBroker(err)
			return
		}
		c.log.Warn("fabric reported an error", "error", err)
	}
	return o
}

// pings returns the interval between pings; 0 is none.
func (cfg *DialConfig) pings() time.Duration {
	if cfg.NoPings {
		return 0
	}
	return pingInterval
}

// token returns the user JWT for the next connect.
func (cfg *DialConfig) token() (string, error) {
	if cfg.Token != nil {
		return cfg.Token(), nil
	}
	return cfg.Identity.JWT, nil
}

// dialer connects for the library, which has one connection at a time.
type dialer struct {
	ctx       context.Context //nolint:containedctx // the library passes no context
	tls       *tls.Config     // nil without TLS
	unreached func(error)
	admission *requestAdmission
	session   *Session
	latest    atomic.Pointer[handshake] // of last; nil without TLS

	mu   sync.Mutex
	last *ctxConn // nil without TLS
}

// Dial connects; the library requires this method. A broker that does not know the session gets a full handshake at
// once: the library would try another broker first.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	conn, err := d.dial(network, address, false)
	if errors.Is(err, errForgotten) {
		conn, err = d.dial(network, address, true)
	}
	if err != nil {
		if d.ctx.Err() == nil {
			d.unreached(err) // the library hides the reason
		}
		return nil, err
	}
	return newInspectedConn(conn, d.admission), nil
}

// dial makes one attempt. If a connection fails later, it may stay open: when the library asks for the next connection,
// the last one has ended.
func (d *dialer) dial(network, address string, full bool) (net.Conn, error) {
	if d.last != nil {
		_ = d.last.Close() // usually closed already
		d.last = nil
	}
	reached, err := d.reach(network, address)
	if err != nil {
		return nil, err
	}
	d.last = newCtxConn(d.ctx, reached)
	if d.tls == nil {
		return d.last, nil
	}
	verified, shake := d.client(address, full)
	d.latest.Store(shake)
	conn := tls.Client(d.last, verified)
	if err := conn.SetDeadline(time.Now().Add(shakeTimeout)); err != nil {
		return nil, err
	}
	if err := conn.HandshakeContext(d.ctx); err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Time{})
}

// client returns the TLS configuration of a connection to an address, and its handshake.
func (d *dialer) client(address string, full bool) (*tls.Config, *handshake) {
	named := d.tls.Clone()
	if named.ServerName == "" {
		named.ServerName, _, _ = net.SplitHostPort(address)
	}
	return d.session.client(named, full)
}

// resumed reports whether the latest connection has resumed a session.
func (d *dialer) resumed() bool {
	shake := d.latest.Load()
	return shake != nil && shake.resumed.Load()
}

// renew replaces the session with the broker at an address by a full handshake, over a connection that it then closes.
func (d *dialer) renew(ctx context.Context, address string) error {
	reached, err := d.reach("tcp", address)
	if err != nil {
		return err
	}
	conn := newCtxConn(ctx, reached)
	defer conn.Close() //nolint:errcheck // nothing was written
	if err := conn.SetDeadline(time.Now().Add(shakeTimeout)); err != nil {
		return err
	}
	cfg, _ := d.client(address, true)
	_, err = tls.Client(conn, cfg).Read(make([]byte, 1)) // the session comes before the broker's first byte
	return err
}

// reach connects to one address of a name, in random order, to spread the load.
func (d *dialer) reach(network, address string) (conn net.Conn, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses := []string{host}
	if _, err := netip.ParseAddr(host); err != nil {
		if addresses, err = net.DefaultResolver.LookupHost(d.ctx, host); err != nil {
			return nil, err
		}
	}
	//nolint:gosec // not a secret
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	by := net.Dialer{Timeout: connectTimeout}
	for _, one := range addresses {
		if conn, err = by.DialContext(d.ctx, network, net.JoinHostPort(one, port)); err == nil {
			KeepAlive(conn)
			return conn, nil
		}
	}
	return nil, err
}

// SkipTLSHandshake leaves TLS to the dialer, so that the dialer can check the decrypted bytes before the library
// reads them.
func (d *dialer) SkipTLSHandshake() bool { return true }

// ctxConn is a connection that ends with a context, so that a silent broker does not delay a stop.
type ctxConn struct {
	net.Conn
	stop func() bool
}

func newCtxConn(ctx context.Context, conn net.Conn) *ctxConn {
	return &ctxConn{conn, context.AfterFunc(ctx, func() { _ = conn.Close() })}
}

// Close ends the connection.
func (c *ctxConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// fullJitter returns a random delay before the n-th attempt (from 1), so that a fleet does not reconnect all at once.
func fullJitter(n int) time.Duration {
	return rand.N(min(longestDelay, firstDelay<<min(n-1, 10))) //nolint:gosec // not a secret
}

func (c *Conn) up(broker string, first func()) {
	c.calls.Lock()
	defer c.calls.Unlock()
	defer first()
	if c.silent {
		return
	}
	ctx, lose := context.WithCancel(context.Background())
	c.searching.Store(false)
	c.refused.Store(false)
	c.link.Store(&link{lost: ctx.Done(), lose: lose})
	c.log.Info("connected to fabric", "url", broker, "resumed", c.dialer.resumed())
	if c.dialer.tls != nil {
		c.renewals.Go(func() { c.keepSession(ctx, broker) })
	}
	if c.onConnected != nil {
		c.onConnected()
	}
}

// RenewSession drops the TLS session, because the broker must prove itself by other authorities than before. If there
// is a link, a full handshake beside it makes a new session within a minute. RenewSession does not wait.
func (c *Conn) RenewSession() {
	c.dialer.session.keep(ticket{})
	idle.Wake(c.renewNow)
}

// keepSession replaces the session with the broker again and again, until the link is lost.
func (c *Conn) keepSession(ctx context.Context, broker string) {
	at, err := url.Parse(broker)
	if err != nil {
		return // not reached: the library has parsed it
	}
	due := time.NewTimer(renewAfter + rand.N(renewSpread)) //nolint:gosec // not a secret
	defer due.Stop()
	failed := false // the last attempt
	for {
		select {
		case <-c.renewNow:
			due.Reset(rand.N(renewSoon)) //nolint:gosec // not a secret
			continue
		case <-due.C:
		case <-ctx.Done():
			return
		}
		next := renewAfter + rand.N(renewSpread) //nolint:gosec // not a secret
		err := c.dialer.renew(ctx, at.Host)
		switch {
		case err == nil:
		case failed || ctx.Err() != nil:
			c.log.Debug("cannot renew the TLS session", "error", err)
		default:
			c.log.Warn("connected, but cannot renew the TLS session; retrying", "error", err)
		}
		if failed = err != nil; failed {
			next = renewRetry
		}
		due.Reset(next)
	}
}

func (c *Conn) down(err error) {
	c.calls.Lock()
	defer c.calls.Unlock()
	if c.silent {
		return
	}
	if l := c.link.Swap(nil); l != nil {
		l.lose()
	}
	c.log.Warn("lost connection to fabric", "error", err)
	if c.onLost != nil {
		c.onLost()
	}
}

// unreached logs the first of many failed attempts.
func (c *Conn) unreached(err error) {
	if unauthorised(err) {
		c.rejectedByBroker(err)
		return
	}
	if c.searching.Swap(true) {
		c.log.Debug("cannot reach fabric", "error", err)
		return
	}
	c.log.Warn("cannot reach fabric, retrying", "error", err)
}

func unauthorised(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAuthExpired)
}

// rejectedByBroker logs the first of many rejections. The broker may accept the credentials later, so the attempts
// continue.
func (c *Conn) rejectedByBroker(err error) {
	if c.refused.Swap(true) {
		c.log.Debug("fabric rejected the credentials again", "error", err)
		return
	}
	c.log.Warn("fabric rejected the credentials: they were revoked, or belong to another server", "error", err)
}

// Connected reports whether there is a link now. It never blocks.
func (c *Conn) Connected() bool { return c.link.Load() != nil }

// Unanswered is for a caller whose requests go unanswered over a link that seems to work. It ends the present
// connection and reconnects, trying another URL first. If there is only one URL, it pings the broker, waits up to 10 s,
// and keeps a connection over which the broker answers. Without a link it does nothing.
func (c *Conn) Unanswered() {
	if !c.Connected() || len(c.nc.Servers()) < 2 && c.nc.FlushTimeout(pingTimeout) == nil {
		return
	}
	c.log.Warn("closed fabric connection, because requests over it go unanswered", "url", c.nc.ConnectedUrlRedacted())
	if err := c.nc.ForceReconnect(); err != nil { // the connection was closed
		c.log.Debug("cannot close fabric connection", "error", err)
	}
}

// Close stops every Serve as its stop function does, in parallel, and ends the connection. It waits for handlers: for
// 3 s gracefully, then for the handlers that ignore the end of their context. Later calls do nothing.
func (c *Conn) Close() {
	if !c.Connected() {
		c.stopDialing() // a pending attempt holds the library's lock
	}
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	var stopping sync.WaitGroup
	for s := range c.services {
		stopping.Go(s.stop)
	}
	c.mu.Unlock()
	stopping.Wait()
	if !first {
		return
	}
	if c.Connected() {
		if err := c.nc.FlushTimeout(flushTimeout); err != nil {
			c.log.Warn("cannot flush fabric connection", "error", err)
		}
	}
	c.calls.Lock()
	c.silent = true // before the connection ends: this loss is not logged
	c.calls.Unlock()
	c.stopDialing()
	c.nc.Close()
	c.calls.Lock()
	if l := c.link.Swap(nil); l != nil {
		l.lose()
	}
	c.calls.Unlock()
	c.renewals.Wait()
}

// denied returns ErrForbidden if the broker's last error forbids the subscription.
func (c *Conn) denied(subject string) error {
	err := c.nc.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `Subscription to "`+subject+`"`) {
		return fmt.Errorf("%w %q", ErrForbidden, subject)
	}
	return nil
}
