package fabric

import (
	"crypto/tls"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A client that resumes a TLS session spares both sides the certificate and most of the key exchange. Each session
// descends from a full handshake, which alone proves the broker by its certificate and has the exchange with ML-KEM.
const (
	// provenFor is how long after a full handshake the sessions that descend from it may be resumed. A thief of a
	// broker's ticket keys can pose as the broker for that time, to a client that has a session of these keys.
	provenFor = 48 * time.Hour
	// A connection may last for months, so the client replaces its session after renewAfter and a random time up to
	// renewSpread, or tries again after renewRetry. If a whole fleet has dropped its sessions, each client waits for a
	// random time up to renewSoon.
	renewAfter  = 18 * time.Hour
	renewSpread = 6 * time.Hour
	renewRetry  = time.Hour
	renewSoon   = time.Minute
	// maxFailures is the number of failed handshakes in a row after which a client drops its session. A few are normal
	// when a whole fleet comes back, and the fault is hardly ever the session's.
	maxFailures = 5
)

// errForgotten ends a handshake in which the client has left out ML-KEM for a session that the broker does not resume.
// The next attempt has a full handshake.
var errForgotten = errors.New("the broker does not know the TLS session")

// Session holds the latest TLS session of a client, so that it outlives a Conn. All brokers of a fleet resume it: they
// share their ticket keys, and their names do not count. The zero value holds none. It is safe for concurrent use, and
// nothing of it is on disk.
type Session struct {
	mu     sync.Mutex
	latest ticket
	// forgotten is true after a broker has not resumed a session: some brokers lose their ticket keys with a restart.
	forgotten bool
}

// ticket is what resumes a session. The zero value is none.
type ticket struct {
	state  *tls.ClientSessionState
	proven time.Time // when the full handshake took place that it descends from
	failed int       // handshakes in a row
}

// offer returns the ticket to resume the session with, and whether brokers probably know it.
func (s *Session) offer(now time.Time) (offered ticket, probable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.latest.proven) >= provenFor {
		s.latest = ticket{}
	}
	return s.latest, s.latest.state != nil && !s.forgotten
}

func (s *Session) keep(latest ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = latest
}

// fail counts a failed handshake.
func (s *Session) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.failed++; s.latest.failed >= maxFailures {
		s.latest = ticket{}
	}
}

func (s *Session) setForgotten(forgotten bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = forgotten
}

// handshake is one handshake of a client. As a tls.ClientSessionCache it has one ticket, and knows from which full
// handshake the tickets descend that the broker sends over this connection.
type handshake struct {
	session *Session
	offered ticket
	// short leaves ML-KEM out. Then the session must be resumed: its secret descends from an exchange with ML-KEM.
	short   bool
	verify  func(tls.ConnectionState) error // nil accepts all
	proven  time.Time
	resumed atomic.Bool
}

// client returns the configuration of the next connection, and its handshake. A full handshake offers no ticket.
func (s *Session) client(cfg *tls.Config, full bool) (*tls.Config, *handshake) {
	h := &handshake{session: s, verify: cfg.VerifyConnection}
	if !full {
		h.offered, h.short = s.offer(time.Now())
	}
	cfg = cfg.Clone()
	// In TLS 1.2 a session is resumed without any key exchange, and its ticket crosses the network in clear.
	cfg.MinVersion = tls.VersionTLS13
	cfg.ClientSessionCache = h
	cfg.VerifyConnection = h.check
	if h.short {
		cfg.CurvePreferences = []tls.CurveID{tls.X25519}
	}
	return cfg, h
}

// check verifies the broker. A resumed session has the certificate of its full handshake: it must still be valid, and
// its authority must still be trusted.
func (h *handshake) check(state tls.ConnectionState) error {
	switch {
	case state.DidResume:
		h.proven = h.offered.proven
	case h.short:
		h.session.setForgotten(true)
		h.session.keep(ticket{})
		return errForgotten
	default:
		h.proven = time.Now()
	}
	if h.verify != nil {
		if err := h.verify(state); err != nil {
			h.session.keep(ticket{})
			return err
		}
	}
	if state.DidResume {
		h.session.setForgotten(false)
		h.resumed.Store(true)
	}
	return nil
}

// Get implements tls.ClientSessionCache.
func (h *handshake) Get(string) (*tls.ClientSessionState, bool) {
	return h.offered.state, h.offered.state != nil
}

// Put implements tls.ClientSessionCache. A failed handshake puts nil, also if a broker was too busy.
func (h *handshake) Put(_ string, state *tls.ClientSessionState) {
	if state == nil {
		h.session.fail()
		return
	}
	h.session.keep(ticket{state: state, proven: h.proven})
}
