package fleet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/pki/pkitest"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// get reads a path of the API without credentials.
func (f *fleet) get(path string) string {
	f.T.Helper()
	_, text := harness.Get(f.T, f.Client, f.URL+path)
	return text
}

// TestSettingsFromAFile: flags count over the file, and agents are told what is advertised.
func TestSettingsFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(file,
		[]byte("data-dir: /none\nhttp: 192.0.2.1:1\nadvertise: ['192.0.2.1:7351', 'drover.example:7351']\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, "--config", file)
	if text := f.Server.Out.String(); !strings.Contains(text, "tls://192.0.2.1:7351 tls://drover.example:7351") {
		t.Errorf("agents are to connect to another address:\n%s", text)
	}
	if code, errs := f.Join("one", "127.0.0.2", f.Token(0)); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if one := f.steal("one"); len(one.enrolment.URLs) != 2 || one.enrolment.URLs[1] != "tls://drover.example:7351" {
		t.Errorf("it was told %q", one.enrolment.URLs)
	}
	if text := f.get("/metrics"); !strings.Contains(text,
		`drover_certificate_expiry_timestamp_seconds{certificate="ca"}`) {
		t.Error("the end of the authority is no metric")
	}
}

// TestWithoutTLS: the API may be without, the fabric never is; a host is let in knowingly only.
func TestWithoutTLS(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "--insecure-http")
	if !strings.HasPrefix(f.URL, "http://127.") || !strings.Contains(f.get("/healthz"), "ok") {
		t.Errorf("URL is %s", f.URL)
	}
	f.JoinAndStart("one", "127.0.0.2", 0)
	if one := f.steal("one"); one.enrolment.CA == "" || !strings.HasPrefix(one.enrolment.URLs[0], "tls://") {
		t.Errorf("its fabric is %q", one.enrolment.URLs)
	}
	p, _ := f.daemon("p")
	f.Want(0, f.Operate(p, 0, first))
	f.Want(0, f.Operate(p, 1, first))
	// The same address, spoken to as if it had TLS.
	plain := f.URL
	f.URL = "https" + strings.TrimPrefix(plain, "http")
	if code, errs := f.Join("two", "127.0.0.3", f.Token(0)); code != 6 ||
		!strings.Contains(errs, "no TLS at this address") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestAGivenCertificate: tokens pin what was given, and the fabric keeps to the server's own authority.
func TestAGivenCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	issuer, certFile, keyFile := pkitest.New(t, "127.0.0.1"), filepath.Join(dir, "cert.pem"),
		filepath.Join(dir, "key.pem")
	pkitest.WritePair(t, issuer, certFile, keyFile)
	f := newFleet(t, "--tls-cert", certFile, "--tls-key", keyFile)
	token, err := wire.ParseJoinToken(f.Token(0))
	if err != nil || token.Fingerprint != issuer.Fingerprint() {
		t.Errorf("the token pins %s (%v), want %s", token.Fingerprint, err, issuer.Fingerprint())
	}
	f.JoinAndStart("one", "127.0.0.2", 0)
	one := f.steal("one")
	own, err := os.ReadFile(filepath.Join(f.ServerDir(), "server", "pki", "ca.pem"))
	if err != nil || one.enrolment.CA != string(own) {
		t.Errorf("the fabric is verified by another authority (%v)", err)
	}
	f.connect(one.Identity, one)
}
