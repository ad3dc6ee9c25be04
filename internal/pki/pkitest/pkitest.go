// Package pkitest gives tests authorities, and certificates that these authorities have issued, in directories that
// the test owns. It decides nothing: package pki decides whom to trust, and for what.
package pkitest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drover/internal/pki"
)

// Open opens a manager. By default it uses the given clock and logs nothing.
func Open(t testing.TB, cfg pki.Config) *pki.Manager {
	t.Helper()
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	k, err := pki.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// New makes a new authority for a server with the names.
func New(t testing.TB, names ...string) *pki.Manager {
	t.Helper()
	return Open(t, pki.Config{Dir: t.TempDir(), Names: names})
}

// ProxyCertificate has a proxy of an area certified.
func ProxyCertificate(t testing.TB, k *pki.Manager, area int) *tls.Certificate {
	t.Helper()
	key, err := pki.ProxyKey(filepath.Join(t.TempDir(), "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.RequestCertificate(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := k.CertifyProxy(request, area, "UKEY")
	if err != nil {
		t.Fatal(err)
	}
	cert := &tls.Certificate{PrivateKey: key}
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		cert.Certificate = append(cert.Certificate, block.Bytes)
	}
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	return cert
}

// WritePair writes the certificate that an authority issues for a server, with its key.
func WritePair(t testing.TB, issuer *pki.Manager, certFile, keyFile string) {
	t.Helper()
	cert, err := issuer.ServerTLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	var chain bytes.Buffer
	for _, der := range cert.Certificate {
		if err := pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			t.Fatal(err)
		}
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(certFile, chain.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		0o600); err != nil {
		t.Fatal(err)
	}
}
