package proxy

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"drover/internal/fabric/broker"
	"drover/internal/frame"
	"drover/internal/pki"
	"drover/internal/wire"
)

// checked parses a certificate and verifies that it belongs to its key.
func checked(cert *tls.Certificate) (*tls.Certificate, error) {
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("cannot read certificate: %w", err)
	}
	cert.Leaf = leaf
	key, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("cannot use certificate: its key cannot sign")
	}
	if own, ok := key.Public().(interface{ Equal(x crypto.PublicKey) bool }); !ok || !own.Equal(leaf.PublicKey) {
		return nil, errors.New("cannot use certificate: it belongs to another key")
	}
	return cert, nil
}

// enrolmentState is the present enrolment of the proxy. It may change at any time, and a change applies to the next
// connection. It is safe for concurrent use.
type enrolmentState struct {
	dir string
	id  identity
	// servers verifies servers.
	servers *pki.Trust

	mu      sync.Mutex
	current wire.ProxyEnrolment
	shown   *tls.Certificate
}

// open reads the enrolment and the keys from disk.
func open(dir string) (*enrolmentState, error) {
	e, err := load(dir)
	if err != nil {
		return nil, err
	}
	id, err := ownIdentity(dir)
	if err != nil {
		return nil, err
	}
	if err := check(e); err != nil {
		return nil, fmt.Errorf("%w: have the proxy in %s join again", err, dir)
	}
	if err := id.sealing.Follow(e.SealingKeys); err != nil {
		return nil, err
	}
	h := &enrolmentState{dir: dir, id: id, current: e}
	if h.shown, err = id.certificate(e); err != nil {
		return nil, err
	}
	if h.servers, err = pki.NewTrust(e.CA); err != nil {
		return nil, err
	}
	return h, nil
}

func (s *enrolmentState) enrolment() wire.ProxyEnrolment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *enrolmentState) certificate() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// change says what a new enrolment changed.
type change struct {
	// account says that the account changed, and so which agents may connect. uplink says that the connection to the
	// servers changed.
	account, uplink bool
}

// replace stores and applies a newer enrolment. It rejects one with another area or account, because that belongs to
// another fleet.
func (s *enrolmentState) replace(e wire.ProxyEnrolment) (change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Area != s.current.Area || e.Fleet != s.current.Fleet ||
		broker.NameOf(e.Account) != broker.NameOf(s.current.Account) {
		return change{}, errors.New("cannot accept enrolment: it belongs to another area or another fleet")
	}
	shown := s.shown
	if e.Certificate == "" {
		e.Certificate = s.current.Certificate
	} else {
		var err error
		if shown, err = s.id.certificate(e); err != nil {
			return change{}, err
		}
	}
	if err := check(e); err != nil {
		return change{}, err
	}
	if broker.SameUser(e.JWT, s.current.JWT) { // the token is signed again each time, with the same contents
		e.JWT = s.current.JWT
	}
	made := change{
		account: e.Account != s.current.Account,
		uplink:  e.JWT != s.current.JWT || !slices.Equal(e.Hubs, s.current.Hubs),
	}
	if err := save(s.dir, e); err != nil {
		return change{}, err
	}
	if err := s.servers.Set(e.CA); err != nil {
		return change{}, err
	}
	s.current, s.shown = e, shown
	return made, s.id.sealing.Follow(e.SealingKeys)
}

// newSealing returns the signed change to the proxy's newest sealing key, at a time of the fleet; nil if the servers
// have that key.
func (s *enrolmentState) newSealing(now time.Time) ([]byte, error) {
	public, since, announce := s.id.sealing.Newest()
	if !announce {
		return nil, nil
	}
	return wire.SignSealing(wire.SealingChange{Key: public, Since: since, At: now}, s.enrolment().Fleet, s.id.key)
}

// check rejects an enrolment that the proxy could not work with.
func check(e wire.ProxyEnrolment) error {
	if len(e.Hubs) == 0 || e.JWT == "" || e.Account == "" || e.Certificate == "" ||
		e.Fleet == "" || len(e.SealingKeys) == 0 {
		return errors.New("cannot use enrolment: it is incomplete")
	}
	for _, key := range e.SealingKeys {
		if _, err := frame.PublicKey(key); err != nil {
			return fmt.Errorf("cannot use enrolment: %w", err)
		}
	}
	if _, err := pki.NewTrust(e.CA); err != nil {
		return fmt.Errorf("cannot use enrolment: %w", err)
	}
	return nil
}

// renewalRequest returns a request for a new certificate; nil while the present one is good. A certificate of an
// authority that has a successor is not good: agents trust the old authority only for a limited time.
func (s *enrolmentState) renewalRequest(now time.Time) ([]byte, error) {
	if !pki.RenewalDue(s.certificate().Leaf, s.enrolment().CA, now) {
		return nil, nil
	}
	return pki.RequestCertificate(s.id.tls)
}

// listenerTLS is the TLS configuration of the proxy's listeners.
func (s *enrolmentState) listenerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate(), nil },
	}
}

// serverTLS is the TLS configuration with which the proxy verifies servers. It does not accept another proxy as a
// server.
func (s *enrolmentState) serverTLS() *tls.Config { return pki.NoProxies(s.servers.TLS()) }

// ownListenerTLS is the TLS configuration with which the proxy verifies its own listener. It accepts an expired
// certificate, because the proxy renews its certificate through that listener.
func (s *enrolmentState) ownListenerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
		VerifyConnection: func(state tls.ConnectionState) error {
			key, err := x509.MarshalPKIXPublicKey(s.id.tls.Public())
			if err != nil {
				return err
			}
			if !bytes.Equal(key, state.PeerCertificates[0].RawSubjectPublicKeyInfo) {
				return errors.New("another program listens on the address of the proxy")
			}
			return nil
		},
	}
}
