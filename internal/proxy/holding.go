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

// holding is what the proxy goes by at present. It may change at any time, and counts with the next connection. It is
// safe for concurrent use.
type holding struct {
	dir string
	id  identity
	// servers are whom the proxy believes.
	servers *pki.Trust

	mu    sync.Mutex
	now   wire.ProxyEnrolment
	shown *tls.Certificate
}

// open takes up what is on disk.
func open(dir string) (*holding, error) {
	e, err := load(dir)
	if err != nil {
		return nil, err
	}
	id, err := ownIdentity(dir)
	if err != nil {
		return nil, err
	}
	h := &holding{dir: dir, id: id, now: e}
	if h.shown, err = id.certificate(e); err != nil {
		return nil, err
	}
	if h.servers, err = pki.NewTrust(e.CA); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *holding) enrolment() wire.ProxyEnrolment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *holding) certificate() *tls.Certificate {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shown
}

func trustOf(e wire.ProxyEnrolment) broker.Trust {
	return broker.Trust{Operator: e.Operator, Account: e.Account}
}

// change is what a new enrolment has changed.
type change struct {
	// account says that others are let in than before, uplink that the way to the servers is another.
	account, uplink bool
}

// take takes over a newer enrolment, which is on disk before it counts. One of another area or operator is refused:
// that would be another fleet.
func (h *holding) take(e wire.ProxyEnrolment) (change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Area != h.now.Area || !trustOf(h.now).SameOperator(trustOf(e)) {
		return change{}, errors.New("cannot accept enrolment: it belongs to another area or another fleet")
	}
	e.Operator = h.now.Operator // each is signed anew, and says the same
	shown := h.shown
	if e.Certificate == "" {
		e.Certificate = h.now.Certificate
	} else {
		var err error
		if shown, err = h.id.certificate(e); err != nil {
			return change{}, err
		}
	}
	if err := check(e); err != nil {
		return change{}, err
	}
	if broker.SameUser(e.JWT, h.now.JWT) { // likewise
		e.JWT = h.now.JWT
	}
	made := change{account: e.Account != h.now.Account, uplink: e.JWT != h.now.JWT || !slices.Equal(e.Hubs, h.now.Hubs)}
	if err := save(h.dir, e); err != nil {
		return change{}, err
	}
	if err := h.servers.Set(e.CA); err != nil {
		return change{}, err
	}
	h.now, h.shown = e, shown
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

// request returns the request for another certificate, nil as long as the present one will do. One of an authority that
// has been followed by another will not: agents know that one only for so long.
func (h *holding) request(now time.Time) ([]byte, error) {
	if !pki.RenewalDue(h.certificate().Leaf, h.enrolment().CA, now) {
		return nil, nil
	}
	return pki.RequestCertificate(h.id.tls)
}

// listening is what a listener of the proxy shows.
func (h *holding) listening() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.certificate(), nil },
	}
}

// upwards is how the proxy verifies servers. Another proxy is none.
func (h *holding) upwards() *tls.Config { return pki.NoProxies(h.servers.TLS()) }

// inwards is how the proxy knows its own listener: a certificate that has ended is still its own, and is renewed
// through it.
func (h *holding) inwards() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // the next line verifies
		VerifyConnection: func(state tls.ConnectionState) error {
			key, err := x509.MarshalPKIXPublicKey(h.id.tls.Public())
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
