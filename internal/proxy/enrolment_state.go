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
	"drover/internal/pki"
	"drover/internal/wire"
)

// checked parses a certificate and checks that it is that of its key.
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

// enrolmentState is what the proxy goes by at present. It may change at any time, and counts with the next connection.
// It is safe for concurrent use.
type enrolmentState struct {
	dir string
	id  identity
	// servers are whom the proxy believes.
	servers *pki.Trust

	mu      sync.Mutex
	current wire.ProxyEnrolment
	shown   *tls.Certificate
}

// open takes up what is on disk.
func open(dir string) (*enrolmentState, error) {
	e, err := load(dir)
	if err != nil {
		return nil, err
	}
	id, err := ownIdentity(dir)
	if err != nil {
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

func trustOf(e wire.ProxyEnrolment) broker.Trust {
	return broker.Trust{Operator: e.Operator, Account: e.Account}
}

// change is what a new enrolment has changed.
type change struct {
	// account says that others are let in than before, uplink that the way to the servers is another.
	account, uplink bool
}

// replace takes over a newer enrolment, which is on disk before it counts. One of another area or operator is refused:
// that would be another fleet.
func (s *enrolmentState) replace(e wire.ProxyEnrolment) (change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Area != s.current.Area || !trustOf(s.current).SameOperator(trustOf(e)) {
		return change{}, errors.New("cannot accept enrolment: it belongs to another area or another fleet")
	}
	e.Operator = s.current.Operator // each is signed anew, and says the same
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
	if broker.SameUser(e.JWT, s.current.JWT) { // likewise
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
	return made, nil
}

// check refuses what the proxy could not work with.
func check(e wire.ProxyEnrolment) error {
	if len(e.Hubs) == 0 || e.JWT == "" || e.Operator == "" || e.Account == "" || e.Certificate == "" {
		return errors.New("cannot use enrolment: it is incomplete")
	}
	if _, err := pki.NewTrust(e.CA); err != nil {
		return fmt.Errorf("cannot use enrolment: %w", err)
	}
	return nil
}

// renewalRequest returns the request for another certificate, nil as long as the present one will do. One of an
// authority that has been followed by another will not: agents know that one only for so long.
func (s *enrolmentState) renewalRequest(now time.Time) ([]byte, error) {
	if !pki.RenewalDue(s.certificate().Leaf, s.enrolment().CA, now) {
		return nil, nil
	}
	return pki.RequestCertificate(s.id.tls)
}

// listenerTLS is what a listener of the proxy shows.
func (s *enrolmentState) listenerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate(), nil },
	}
}

// serverTLS is how the proxy verifies servers. Another proxy is none.
func (s *enrolmentState) serverTLS() *tls.Config { return pki.NoProxies(s.servers.TLS()) }

// ownListenerTLS is how the proxy knows its own listener: a certificate that has ended is still its own, and is renewed
// through it.
func (s *enrolmentState) ownListenerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // the next line verifies
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
