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
	// lookEvery is how often certificates are looked at while Run runs.
	lookEvery = time.Hour
	// warnBefore is how long before an end that nobody has seen to it is warned of, once a day.
	warnBefore = 30 * 24 * time.Hour
	// An authority has to be followed by another one before its end, which takes as long as hosts may be away.
	warnBeforeCA = 365 * 24 * time.Hour
	warnEvery    = 24 * time.Hour
)

// Certificate is when one of a server's certificates ends.
type Certificate struct {
	// Name is "ca" or "server".
	Name string
	Ends time.Time
}

// Keeper holds the certificate that a server shows and sees to its renewal. Its methods may be called from any
// goroutine.
type Keeper struct {
	log *slog.Logger
	now func() time.Time
	// renew returns the certificate to show from now on; the present one when it will do, nil at first.
	renew func(present *tls.Certificate, now time.Time) (*tls.Certificate, error)
	shown atomic.Pointer[tls.Certificate]
	// authorities are the server's own; nil where certificates were given. Then pinned is what peers are told to trust,
	// which does not change.
	authorities atomic.Pointer[authorities]
	pinned      *x509.Certificate
	own         bool
	dir         string
	names       []string
	warned      map[string]time.Time // by name; Run's alone
}

// Config is what a Keeper needs.
type Config struct {
	// Dir holds the authority: ca.key and ca.pem. It is made (0700) at the first start.
	Dir string
	// Names are the host names and IP addresses by which the server is reached.
	Names []string
	// CertFile and KeyFile, when set, are certificates that somebody else has issued, in PEM: the server's own first,
	// its issuers behind it, the one to trust last. They are used instead of an authority of our own, and read again
	// when they change.
	CertFile, KeyFile string
	Now               func() time.Time
	Log               *slog.Logger
}

// Open reads or makes the authority and issues a certificate, or reads the given one. It blocks for the disk only, and
// fails on a key that others may read, that does not fit, or that has ended.
func Open(cfg Config) (*Keeper, error) {
	k := &Keeper{
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

// issued returns a certificate of the present authority, unless the present one will do.
func (k *Keeper) issued(present *tls.Certificate, now time.Time) (*tls.Certificate, error) {
	set := k.authorities.Load()
	if present != nil &&
		(now.Before(renewal(present.Leaf)) || !present.Leaf.NotAfter.Before(set.present.cert.NotAfter)) {
		return present, nil
	}
	cert, err := set.present.issue(k.names, now)
	if err != nil {
		return nil, err
	}
	cert.Certificate = append(cert.Certificate, set.behind...)
	return cert, nil
}

// renewal is when two thirds of a certificate's life have passed.
func renewal(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-leafLife / 3)
}

// given returns what reads a certificate anew whenever one of its files has changed. Files that cannot be used are an
// error, and are looked at again next time: whoever replaces them may be between the two.
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

// ServerTLS returns what a listener needs; it always shows the latest certificate.
func (k *Keeper) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.shown.Load(), nil },
	}
}

// CA returns the certificates that peers trust, in PEM, that of the present authority first.
func (k *Keeper) CA() string {
	set := k.authorities.Load()
	if set == nil {
		return encode(k.pinned.Raw)
	}
	var all strings.Builder
	for _, cert := range set.trusted {
		all.WriteString(encode(cert.Raw))
	}
	return all.String()
}

// Fingerprint returns the SHA-256 of the public key of the authority that issues, in hexadecimal digits.
func (k *Keeper) Fingerprint() string {
	if set := k.authorities.Load(); set != nil {
		return fingerprint(set.present.cert)
	}
	return fingerprint(k.pinned)
}

func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Certificates returns when the certificates end.
func (k *Keeper) Certificates() []Certificate {
	list := []Certificate{{Name: "server", Ends: k.shown.Load().Leaf.NotAfter}}
	if set := k.authorities.Load(); set != nil {
		list = append(list, Certificate{Name: "ca", Ends: set.present.cert.NotAfter})
	}
	return list
}

// Run renews the certificate when two thirds of its life have passed, takes up given files that have changed, and warns
// of ends that come near, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		k.look(ctx, k.now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *Keeper) look(ctx context.Context, now time.Time) {
	present := k.shown.Load()
	switch next, err := k.renew(present, now); {
	case err != nil:
		k.log.ErrorContext(ctx, "cannot renew certificate", "error", err)
	case next != present && k.unpinned(next):
		k.log.ErrorContext(ctx, "rejected new certificate: its issuer is not an authority that agents trust",
			"pinned", k.Fingerprint())
	case next != present && k.shown.CompareAndSwap(present, next): // Use may have been quicker
		k.log.InfoContext(ctx, "renewed certificate", "ends", next.Leaf.NotAfter)
	}
	for _, c := range k.Certificates() {
		before := warnBefore
		if c.Name == "ca" {
			before = warnBeforeCA
		}
		if c.Ends.Sub(now) < before && now.Sub(k.warned[c.Name]) >= warnEvery {
			k.warned[c.Name] = now
			k.log.WarnContext(ctx, "certificate expires soon", "certificate", c.Name, "ends", c.Ends)
		}
	}
}

// unpinned reports whether a certificate would be refused by those who hold the fingerprint.
func (k *Keeper) unpinned(cert *tls.Certificate) bool {
	chain := make([]*x509.Certificate, 0, len(cert.Certificate))
	for _, der := range cert.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return true
		}
		chain = append(chain, c)
	}
	err := verifyPinned(chain, k.Fingerprint(), k.now())
	var invalid x509.CertificateInvalidError
	// What will count only later, or no longer does, is for the one who issued it to mend.
	mended := errors.As(err, &invalid) && invalid.Reason == x509.Expired
	return err != nil && !mended
}
