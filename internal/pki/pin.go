package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// fingerprintLength is the length of a fingerprint, in hexadecimal digits.
const fingerprintLength = 2 * sha256.Size

// PinError means that another server, or an attacker, answers instead of the expected server.
type PinError struct {
	// Want is the expected fingerprint, and Got the fingerprint of the last certificate that the server presented.
	Want, Got string
	// Broker is true if the authority is correct, but has certified the peer as a broker only.
	Broker bool
}

// Error returns the text.
func (e *PinError) Error() string {
	if e.Broker {
		return "the certificate belongs to a broker, not to a server: the address is the address of a broker, or somebody intercepts the connection"
	}
	return fmt.Sprintf(
		"the server shows a certificate with the fingerprint %s, expected %s: it is another server, or somebody intercepts the connection", e.Got, e.Want)
}

// ClockError means that a correct certificate is not valid at this host's current time.
type ClockError struct {
	Now, From, Until time.Time
}

// Error returns the text.
func (e *ClockError) Error() string {
	return fmt.Sprintf(
		"the server's certificate counts from %s to %s, and the clock of this host says %s: check the clocks",
		e.From.UTC().Format(time.RFC3339), e.Until.UTC().Format(time.RFC3339), e.Now.UTC().Format(time.RFC3339))
}

// Pinned returns the TLS of a client that trusts one authority only, known by its Fingerprint, and no root of the
// system. A name of the server is not compared: the authority issues certificates to its own servers alone, which may
// be reached by any address.
func Pinned(fingerprint string) *tls.Config {
	return verifying(func(chain []*x509.Certificate) error {
		return verifyPinned(chain, strings.ToLower(fingerprint), time.Now())
	})
}

// Trusting returns the TLS of a client that trusts some authorities only, given as their certificates in PEM, in
// servers, proxies and brokers. No name is compared.
func Trusting(ca string) (*tls.Config, error) {
	t, err := NewTrust(ca)
	if err != nil {
		return nil, err
	}
	return t.TLS(), nil
}

// Trust is the authorities that a client trusts. They may be changed at any time, and count with the next connection.
type Trust struct{ roots atomic.Pointer[x509.CertPool] }

// NewTrust returns the trust in authorities that are given as their certificates in PEM.
func NewTrust(ca string) (*Trust, error) {
	t := &Trust{}
	return t, t.Set(ca)
}

// Set replaces the authorities. It changes nothing if there is no certificate.
func (t *Trust) Set(ca string) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		return errors.New("cannot read the certificate of the server's authority: expected a certificate in PEM")
	}
	t.roots.Store(roots)
	return nil
}

// TLS returns the configuration of a client. It trusts no root of the system, compares no name, and accepts servers,
// proxies and brokers.
func (t *Trust) TLS() *tls.Config {
	return verifying(func(chain []*x509.Certificate) error { return verify(chain, t.roots.Load(), time.Now()) })
}

func verifying(check func(chain []*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // the next line verifies everything except the name
		VerifyConnection: func(state tls.ConnectionState) error {
			return check(state.PeerCertificates)
		},
	}
}

func verifyPinned(chain []*x509.Certificate, want string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the server shows no certificate")
	}
	roots := x509.NewCertPool()
	found := false
	for _, cert := range chain {
		if fingerprint(cert) == want {
			roots.AddCert(cert)
			found = true
		}
	}
	if !found {
		return &PinError{Want: want, Got: fingerprint(chain[len(chain)-1])}
	}
	if err := verify(chain, roots, now); err != nil {
		return err
	}
	if isBroker(chain[0]) {
		return &PinError{Want: want, Got: fingerprint(chain[len(chain)-1]), Broker: true}
	}
	return nil
}

// verify checks that the first certificate is a server's and that one of the roots issued it.
func verify(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the server shows no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return errors.Join(&ClockError{Now: now, From: invalid.Cert.NotBefore, Until: invalid.Cert.NotAfter}, err)
	}
	if err != nil {
		return fmt.Errorf("cannot trust the server's certificate: %w", err)
	}
	return nil
}
