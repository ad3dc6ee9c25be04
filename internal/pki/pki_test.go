package pki_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
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

// shake lets a client shake hands with a server and returns what the client says.
func shake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = tls.Server(conn, server).HandshakeContext(context.Background()) // the client's word counts
		_, _ = io.Copy(io.Discard, conn)
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(conn, client)
	err = tc.HandshakeContext(t.Context())
	state := tc.ConnectionState()
	_ = conn.Close()
	<-served
	return state, err
}

func trusting(t *testing.T, ca string) *tls.Config {
	t.Helper()
	c, err := pki.Trusting(ca)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAgentsTrustTheirServerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	own := pkitest.Open(t, pki.Config{Dir: dir, Names: []string{"drover.example", "192.0.2.1"}})
	other := pkitest.Open(t, pki.Config{Dir: t.TempDir(), Names: []string{"drover.example", "192.0.2.1"}})
	for name, c := range map[string]struct {
		server, client *tls.Config
		ok             bool
	}{
		"pinned":               {own.ServerTLS(), pki.Pinned(own.Fingerprint()), true},
		"pinned in capitals":   {own.ServerTLS(), pki.Pinned(strings.ToUpper(own.Fingerprint())), true},
		"trusted":              {own.ServerTLS(), trusting(t, own.CA()), true},
		"pinned, and another":  {other.ServerTLS(), pki.Pinned(own.Fingerprint()), false},
		"trusted, and another": {other.ServerTLS(), trusting(t, own.CA()), false},
	} {
		if _, err := shake(t, c.server, c.client); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := shake(t, other.ServerTLS(), pki.Pinned(own.Fingerprint()))
	var pin *pki.PinError
	if !errors.As(err, &pin) || pin.Want != own.Fingerprint() || pin.Got != other.Fingerprint() {
		t.Errorf("another server is told of as %v", err)
	}
	if len(own.Fingerprint()) != 64 {
		t.Errorf("fingerprint %q", own.Fingerprint())
	}
	if _, err := pki.Trusting("nothing"); err == nil {
		t.Error("a text that is no certificate is trusted")
	}
}

// TestABorrowedAuthorityIsNoProof: anybody can show the authority's certificate behind one of their own.
func TestABorrowedAuthorityIsNoProof(t *testing.T) {
	own := pkitest.Open(t, pki.Config{Dir: t.TempDir(), Names: []string{"x"}})
	other := pkitest.Open(t, pki.Config{Dir: t.TempDir(), Names: []string{"x"}})
	theirs, err := other.ServerTLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := own.ServerTLS().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	forged := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{
		theirs.Certificate[0],
		ours.Certificate[1],
	}, PrivateKey: theirs.PrivateKey}}}
	for name, client := range map[string]*tls.Config{
		"pinned":  pki.Pinned(own.Fingerprint()),
		"trusted": trusting(t, own.CA()),
	} {
		if _, err := shake(t, forged, client); err == nil {
			t.Errorf("%s: a borrowed authority is believed", name)
		}
	}
}

func TestOrdinaryClientsCanVerifyToo(t *testing.T) {
	k := pkitest.Open(t, pki.Config{Dir: t.TempDir(), Names: []string{"drover.example", "192.0.2.1", "::1"}})
	strict := trusting(t, k.CA()).Clone()
	strict.InsecureSkipVerify, strict.VerifyConnection = false, nil
	strict.RootCAs = pool(t, k.CA())
	for name, ok := range map[string]bool{
		"drover.example": true, "192.0.2.1": true, "::1": true,
		"elsewhere.example": false, "192.0.2.2": false,
	} {
		strict.ServerName = name
		if _, err := shake(t, k.ServerTLS(), strict); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheAuthorityStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first := pkitest.Open(t, pki.Config{Dir: dir, Names: []string{"a"}})
	if again := pkitest.Open(t,
		pki.Config{Dir: dir, Names: []string{"b"}}); again.Fingerprint() != first.Fingerprint() ||
		again.CA() != first.CA() {
		t.Error("a second start has another authority")
	}
	for _, name := range []string{"ca.key", "ca.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	if again := pkitest.Open(t, pki.Config{Dir: dir}); again.Fingerprint() != first.Fingerprint() {
		t.Error("a certificate that was made anew has another fingerprint")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("the directory holds %v, %v", files, err)
	}
}

func TestBadAuthorities(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"a key that others may read": {
			func(dir string) error { return os.Chmod(filepath.Join(dir, "ca.key"), 0o640) },
			"mode 0600",
		},
		"a lost key": {
			func(dir string) error { return os.Remove(filepath.Join(dir, "ca.key")) },
			"restore the key",
		},
		"no key": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ca.key"), []byte("secret"), 0o600)
		}, "holds no PRIVATE KEY"},
		"another certificate": {func(dir string) error {
			data, err := os.ReadFile(filepath.Join(dir, "..", "other", "ca.pem"))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "ca.pem"), data, 0o600))
		}, "is not the certificate of the key"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "pki")
			pkitest.Open(t, pki.Config{Dir: dir})
			pkitest.Open(t, pki.Config{Dir: filepath.Join(top, "other")})
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			_, err := pki.Open(pki.Config{Dir: dir, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error is %v, want one about %q", err, c.want)
			}
		})
	}
	dir := t.TempDir()
	pkitest.Open(t, pki.Config{Dir: dir})
	later := func() time.Time { return time.Now().AddDate(11, 0, 0) }
	if _, err := pki.Open(pki.Config{Dir: dir, Now: later, Log: slog.New(slog.DiscardHandler)}); err == nil ||
		!strings.Contains(err.Error(), "expired on") {
		t.Errorf("after eleven years: %v", err)
	}
}

func TestAWrongClockIsNamed(t *testing.T) {
	ahead := func() time.Time { return time.Now().Add(48 * time.Hour) }
	k := pkitest.Open(t, pki.Config{Dir: t.TempDir(), Now: ahead})
	_, err := shake(t, k.ServerTLS(), pki.Pinned(k.Fingerprint()))
	var clock *pki.ClockError
	if !errors.As(err, &clock) || !strings.Contains(err.Error(), "check the clocks") {
		t.Errorf("error is %v", err)
	}
}

func TestRenewalAndWarnings(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var out harness.Log
		k := pkitest.Open(t, pki.Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&out, nil))})
		config := k.ServerTLS()
		ends := func() time.Time {
			cert, err := config.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return cert.Leaf.NotAfter
		}
		first := ends()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(59 * 24 * time.Hour)
		synctest.Wait()
		if !ends().Equal(first) {
			t.Error("the certificate was renewed before two thirds of its life")
		}
		time.Sleep(2 * 24 * time.Hour)
		synctest.Wait()
		if got := ends().Sub(first); got < 59*24*time.Hour {
			t.Errorf("after 61 days the certificate ends only %v later", got)
		}
		if strings.Contains(out.String(), "expires soon") {
			t.Errorf("it was warned of what renews itself:\n%s", out.String())
		}
		time.Sleep(10*365*24*time.Hour - 61*24*time.Hour - 10*24*time.Hour)
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), "certificate=ca"); n < 350 || n > 360 {
			t.Errorf("the end of the authority was warned of %d times in 355 days", n)
		}
		for _, c := range k.Certificates() {
			if left := time.Until(c.Ends); left < 9*24*time.Hour || left > 11*24*time.Hour {
				t.Errorf("%s ends in %v", c.Name, left)
			}
		}
	})
}
