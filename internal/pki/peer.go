package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// PeerTLS returns the TLS configuration between the brokers of a fleet's servers, for both sides. Each side presents a
// certificate that only a server can have; names are not compared. The certificate renews itself. PeerTLS fails if
// external certificates were given.
func (m *Manager) PeerTLS() (*tls.Config, error) {
	p := &peer{k: m}
	if _, err := p.certificate(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:           tls.VersionTLS12,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.certificate() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.certificate() },
		ClientAuth:           tls.RequireAnyClientCert,
		InsecureSkipVerify:   true, //nolint:gosec // the next line verifies everything except the name
		VerifyConnection: func(state tls.ConnectionState) error {
			return m.verifyPeer(state.PeerCertificates, m.now())
		},
	}, nil
}

// peer holds the certificate for other servers.
type peer struct {
	k *Manager

	mu     sync.Mutex
	shown  *tls.Certificate
	issuer []byte
}

// certificate returns the current certificate. It makes a new one if two thirds of its life have passed, or if another
// authority issues now.
func (p *peer) certificate() (*tls.Certificate, error) {
	set := p.k.authorities.Load()
	if set == nil {
		return nil, errors.New("cannot certify a broker: the certificates come from another authority")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown != nil && bytes.Equal(p.issuer, set.present.cert.Raw) && !RenewalDue(p.shown.Leaf, p.k.CA(), p.k.now()) {
		return p.shown, nil
	}
	cert, key, err := p.k.IssueNode(p.k.names)
	if err != nil {
		return nil, err
	}
	made, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cannot certify a broker: %w", err)
	}
	p.shown, p.issuer = &made, set.present.cert.Raw
	return p.shown, nil
}

// verifyPeer checks that the first certificate is a broker's. Servers and brokers have one; agents and proxies do not.
func (m *Manager) verifyPeer(chain []*x509.Certificate, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the peer shows no certificate")
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, cert := range m.authorities.Load().trusted {
		roots.AddCert(cert)
	}
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("the peer's certificate does not belong to a broker of this fleet: %w", err)
	}
	return nil
}
