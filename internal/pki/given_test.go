package pki_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/test/harness"
)

func pool(t *testing.T, ca string) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM([]byte(ca)) {
		t.Fatal("no certificate")
	}
	return p
}

func shown(t *testing.T, c *tls.Config) string {
	t.Helper()
	cert, err := c.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf.SerialNumber.String()
}

func TestGivenCertificates(t *testing.T) {
	dir, authority := t.TempDir(), t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	synctest.Test(t, func(t *testing.T) {
		issuer := pkitest.Open(t, pki.Config{Dir: authority, Names: []string{"given.example"}})
		pkitest.WritePair(t, issuer, certFile, keyFile)
		var out harness.Log
		k := pkitest.Open(t, pki.Config{
			CertFile: certFile, KeyFile: keyFile,
			Log: slog.New(slog.NewTextHandler(&out, nil)),
		})
		if k.Fingerprint() != issuer.Fingerprint() {
			t.Error("not the last certificate is pinned")
		}
		config := k.ServerTLS()
		first := shown(t, config)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		replace := func(issuer *pki.Manager) string {
			pkitest.WritePair(t, issuer, certFile, keyFile)
			stamp := time.Now()
			for _, f := range []string{certFile, keyFile} {
				if err := os.Chtimes(f, stamp, stamp); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			return shown(t, config)
		}
		second := replace(pkitest.Open(t, pki.Config{Dir: authority, Names: []string{"given.example"}}))
		if second == first {
			t.Errorf("a new certificate was not taken up:\n%s", out.String())
		}
		if replace(pkitest.Open(t, pki.Config{Dir: filepath.Join(dir, "strange")})) != second ||
			!strings.Contains(out.String(), "rejected new certificate") {
			t.Errorf("one of another authority was taken up:\n%s", out.String())
		}
		if err := os.WriteFile(keyFile, []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if shown(t, config) != second || !strings.Contains(out.String(), "cannot renew certificate") {
			t.Errorf("a broken pair:\n%s", out.String())
		}
		time.Sleep(65 * 24 * time.Hour)
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !strings.Contains(out.String(), "certificate=server") {
			t.Errorf("its end was not warned of:\n%s", out.String())
		}
	})
	later := func() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 5, 0) }
	issuer := pkitest.Open(t, pki.Config{Dir: authority, Now: func() time.Time { return later().AddDate(0, -4, 0) }})
	pkitest.WritePair(t, issuer, certFile, keyFile)
	if _, err := pki.Open(pki.Config{
		CertFile: certFile, KeyFile: keyFile, Now: later,
		Log: slog.New(slog.DiscardHandler),
	}); err == nil || !strings.Contains(err.Error(), "expired on") {
		t.Errorf("one that has ended: %v", err)
	}
}
