// Package pki makes the certificates of a drover server and defines whom its peers trust. It owns the server's
// authority (a CA below its data directory) and the server's certificate with its renewal. It also owns the pin that
// an agent verifies instead of the roots of its system. It knows no protocol above TLS, and no key of an agent.
package pki

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is the interval at which Run checks the certificates.
	lookEvery = time.Hour
	// warnBefore is how long before the end of a certificate Run warns of it, once every warnEvery. Nobody has renewed
	// the certificate by then.
	warnBefore = 30 * 24 * time.Hour
	// An operator must replace an authority before its end, which takes as long as hosts may be offline.
	warnBeforeCA = 365 * 24 * time.Hour
	warnEvery    = 24 * time.Hour
)

// Certificate is when one of a server's certificates ends.
type Certificate struct {
	// Name is "ca" or "server".
	Name string
	Ends time.Time
}

// Manager holds the certificate that a server shows and sees to its renewal. Its methods may be called from any
// goroutine.
type Manager struct {
	log *slog.Logger
	now func() time.Time
	// renew returns the certificate to present from now on: the present one if it is still good. The present one is nil
	// at first.
	renew func(present *tls.Certificate, now time.Time) (*tls.Certificate, error)
	shown atomic.Pointer[tls.Certificate]
	// authorities are the server's own; nil if external certificates were given. In that case peers trust pinned, which
	// does not change.
	authorities atomic.Pointer[authorities]
	pinned      *x509.Certificate
	own         bool
	dir         string
	names       []string
	warned      map[string]time.Time // by name; only Run uses it
}

// Config holds the settings of a Manager.
type Config struct {
	// Dir holds the authority: ca.key and ca.pem. It is made (0700) at the first start.
	Dir string
	// Names are the host names and IP addresses by which the server is reached.
	Names []string
	// CertFile and KeyFile, if set, are external certificates in PEM: first the server's own, then its issuers, last
	// the one to trust. The Manager uses them instead of its own authority, and reads them again when they change.
	CertFile, KeyFile string
	Now               func() time.Time
	Log               *slog.Logger
}

// Open reads or makes the authority and issues a certificate, or reads the given one. It blocks for the disk only, and
// fails on a key that others may read, that does not fit, or that has ended.
func Open(cfg Config) (*Manager, error) {
	k := &Manager{
		log: cfg.Log, now: cfg.Now, dir: cfg.Dir, names: cfg.Names, warned: map[string]time.Time{},
		own: cfg.CertFile == "",
	}
	now := cfg.Now()
	if k.own {
		set, err := openAuthorities(cfg.Dir, now)
		if err != nil {
			return nil, fmt.Errorf("cannot open certificate authority: %w", err)
		}
		k.authorities.Store(set)
		k.renew = k.issued
	} else {
		k.renew = given(cfg.CertFile, cfg.KeyFile)
	}
	cert, err := k.renew(nil, now)
	if err != nil {
		return nil, fmt.Errorf("cannot open certificate: %w", err)
	}
	if !k.own {
		if k.pinned, err = x509.ParseCertificate(cert.Certificate[len(cert.Certificate)-1]); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", cfg.CertFile, err)
		}
		if now.After(cert.Leaf.NotAfter) {
			return nil, fmt.Errorf("cannot use %s: it expired on %s", cfg.CertFile, day(cert.Leaf.NotAfter))
		}
	}
	k.shown.Store(cert)
	return k, nil
}

// issued returns a new certificate of the present authority, or the present certificate if it is still good.
func (m *Manager) issued(present *tls.Certificate, now time.Time) (*tls.Certificate, error) {
	set := m.authorities.Load()
	if present != nil &&
		(now.Before(renewal(present.Leaf)) || !present.Leaf.NotAfter.Before(set.present.cert.NotAfter)) {
		return present, nil
	}
	cert, err := set.present.issue(m.names, now)
	if err != nil {
		return nil, err
	}
	cert.Certificate = append(cert.Certificate, set.behind...)
	return cert, nil
}

// renewal returns the time at which two thirds of a certificate's life have passed.
func renewal(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-leafLife / 3)
}

// given returns a function that reads a certificate again if one of its files has changed. It returns an error for
// unusable files and reads them again next time, because an operator may be replacing them.
func given(certFile, keyFile string) func(*tls.Certificate, time.Time) (*tls.Certificate, error) {
	var seen [2]time.Time
	return func(present *tls.Certificate, _ time.Time) (*tls.Certificate, error) {
		var changed [2]time.Time
		for i, file := range []string{certFile, keyFile} {
			info, err := os.Stat(file)
			if err != nil {
				return nil, err
			}
			changed[i] = info.ModTime()
		}
		if present != nil && changed == seen {
			return present, nil
		}
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
		}
		seen = changed
		return &cert, nil
	}
}

// ServerTLS returns the configuration of a listener. It always presents the latest certificate.
func (m *Manager) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.shown.Load(), nil },
	}
}

// CA returns the certificates that peers trust, in PEM; the present authority comes first.
func (m *Manager) CA() string {
	set := m.authorities.Load()
	if set == nil {
		return encode(m.pinned.Raw)
	}
	var all strings.Builder
	for _, cert := range set.trusted {
		all.WriteString(encode(cert.Raw))
	}
	return all.String()
}

// Fingerprint returns the SHA-256 of the public key of the authority that issues, in hexadecimal digits.
func (m *Manager) Fingerprint() string {
	if set := m.authorities.Load(); set != nil {
		return fingerprint(set.present.cert)
	}
	return fingerprint(m.pinned)
}

func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Certificates returns when the certificates end.
func (m *Manager) Certificates() []Certificate {
	list := []Certificate{{Name: "server", Ends: m.shown.Load().Leaf.NotAfter}}
	if set := m.authorities.Load(); set != nil {
		list = append(list, Certificate{Name: "ca", Ends: set.present.cert.NotAfter})
	}
	return list
}

// Run renews the certificate when two thirds of its life have passed, and reads given files that have changed. It warns
// of certificates that end soon. It runs until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		m.renewAndWarn(ctx, m.now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// renewAndWarn renews the certificate if it is due, and warns of the certificates that end soon.
func (m *Manager) renewAndWarn(ctx context.Context, now time.Time) {
	present := m.shown.Load()
	switch next, err := m.renew(present, now); {
	case err != nil:
		m.log.ErrorContext(ctx, "cannot renew certificate", "error", err)
	case next != present && m.unpinned(next):
		m.log.ErrorContext(ctx, "rejected new certificate: its issuer is not an authority that agents trust",
			"pinned", m.Fingerprint())
	case next != present && m.shown.CompareAndSwap(present, next): // Use may have replaced it first
		m.log.InfoContext(ctx, "renewed certificate", "ends", next.Leaf.NotAfter)
	}
	for _, c := range m.Certificates() {
		before := warnBefore
		if c.Name == "ca" {
			before = warnBeforeCA
		}
		if c.Ends.Sub(now) < before && now.Sub(m.warned[c.Name]) >= warnEvery {
			m.warned[c.Name] = now
			m.log.WarnContext(ctx, "certificate expires soon", "certificate", c.Name, "ends", c.Ends)
		}
	}
}

// unpinned reports whether peers that hold the fingerprint would reject a certificate.
func (m *Manager) unpinned(cert *tls.Certificate) bool {
	chain := make([]*x509.Certificate, 0, len(cert.Certificate))
	for _, der := range cert.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return true
		}
		chain = append(chain, c)
	}
	err := verifyPinned(chain, m.Fingerprint(), m.now())
	var invalid x509.CertificateInvalidError
	// A wrong period of validity is the issuer's to correct.
	mended := errors.As(err, &invalid) && invalid.Reason == x509.Expired
	return err != nil && !mended
}
