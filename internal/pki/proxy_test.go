package pki_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"drover/internal/pki"
	"drover/internal/pki/pkitest"
)

// shaken returns what a client makes of a server that shows a certificate.
func shaken(t *testing.T, client *tls.Config, shown *tls.Config) error {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		_ = tls.Server(far, shown).Handshake() // the client says what was wrong
	}()
	err := tls.Client(near, client).Handshake()
	_ = near.Close()
	<-done
	return err
}

// TestAProxyIsBelievedInItsAreaOnly: what is pinned counts for it, and yet it stands in for no server.
func TestAProxyIsBelievedInItsAreaOnly(t *testing.T) {
	k := pkitest.New(t, "localhost")
	cert := pkitest.ProxyCertificate(t, k, 3)
	shown := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}}
	trusting, err := pki.Trusting(k.CA())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		client, shown *tls.Config
		words         string
	}{
		"a pin":         {pki.Pinned(k.Fingerprint()), shown, ""},
		"the authority": {trusting, shown, ""},
		"its area":      {pki.ProxiesOf(3, trusting), shown, ""},
		"another area": {
			pki.ProxiesOf(4, trusting), shown,
			"expected a proxy of area 4, but a proxy of area 3 answered",
		},
		"who wants a server": {
			pki.NoProxies(trusting), shown,
			"expected a server, but a proxy of area 3 answered",
		},
		"an area, by a server":         {pki.ProxiesOf(4, trusting), k.ServerTLS(), ""},
		"who wants a server, and gets": {pki.NoProxies(trusting), k.ServerTLS(), ""},
		"another authority": {
			pki.ProxiesOf(3, pki.Pinned(pkitest.New(t, "localhost").Fingerprint())), shown,
			"another server",
		},
	} {
		err := shaken(t, c.client, c.shown)
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want an error about %q", name, err, c.words)
		}
	}
	if area, proxy := pki.ProxyArea(cert.Leaf); area != 3 || !proxy {
		t.Errorf("it is of area %d, %v", area, proxy)
	}
	now := time.Now()
	if pki.RenewalDue(cert.Leaf, k.CA(), now) || !pki.RenewalDue(cert.Leaf, k.CA(), now.Add(61*24*time.Hour)) {
		t.Error("it is not renewed at two thirds of its life")
	}
	if other := pkitest.New(t, "localhost").CA(); pki.RenewalDue(cert.Leaf, k.CA()+other, now) ||
		!pki.RenewalDue(cert.Leaf, other+k.CA(), now) {
		t.Error("it is not renewed when another authority is the present one")
	}
}

func TestWhatIsNotCertified(t *testing.T) {
	k := pkitest.New(t, "localhost")
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	strange, err := pki.RequestCertificate(other)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.ProxyKey(filepath.Join(t.TempDir(), "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := pki.RequestCertificate(key)
	if err != nil {
		t.Fatal(err)
	}
	forged[len(forged)-1] ^= 1
	for name, request := range map[string][]byte{
		"nothing": nil, "no request": []byte("x"),
		"another kind of key": strange, "a request of somebody else": forged,
	} {
		if text, err := k.CertifyProxy(request, 3, "UKEY"); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAProxyKeepsItsKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tls.key")
	first, err := pki.ProxyKey(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := pki.ProxyKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if own, ok := first.Public().(*ecdsa.PublicKey); !ok || !own.Equal(second.Public()) {
		t.Error("it has another one")
	}
}

// TestProof: what a server has signed is believed, and what a proxy has is not.
func TestProof(t *testing.T) {
	k, other := pkitest.New(t, "localhost"), pkitest.New(t, "localhost")
	data := []byte("an answer")
	made, err := k.Prove(data)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := made.Verify(k.Fingerprint(), data, now); err != nil {
		t.Error(err)
	}
	cert := pkitest.ProxyCertificate(t, k, 3)
	for name, refused := range map[string]error{
		"other data":        made.Verify(k.Fingerprint(), []byte("another answer"), now),
		"another authority": made.Verify(other.Fingerprint(), data, now),
		"long after":        made.Verify(k.Fingerprint(), data, now.Add(365*24*time.Hour)),
		"by a proxy": pki.Proof{Signature: made.Signature, Chain: cert.Certificate}.Verify(k.Fingerprint(),
			data, now),
		"without a chain": pki.Proof{Signature: made.Signature}.Verify(k.Fingerprint(), data, now),
		"with a broken one": pki.Proof{Signature: made.Signature, Chain: [][]byte{{1}}}.Verify(k.Fingerprint(), data,
			now),
		"without signature":  pki.Proof{Chain: made.Chain}.Verify(k.Fingerprint(), data, now),
		"an empty signature": pki.Proof{}.Verify(k.Fingerprint(), data, now),
	} {
		if refused == nil {
			t.Errorf("%s: it is believed", name)
		}
	}
}

// TestARequestIsLookedAtFirst: no signature is verified by a key of a kind that no proxy has, nor of a length.
func TestARequestIsLookedAtFirst(t *testing.T) {
	k := pkitest.New(t, "localhost")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	request[len(request)-1] ^= 1 // its signature is none
	long, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{DNSNames: []string{strings.Repeat("x", 8<<10)}}, key)
	if err != nil {
		t.Fatal(err)
	}
	for words, request := range map[string][]byte{"its key is not of ECDSA": request, "expected at most 4096": long} {
		if _, err := k.CertifyProxy(request, 3, "UKEY"); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("error is %v, want one about %q", err, words)
		}
	}
	proof, err := k.Prove([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	for words, chain := range map[string][][]byte{
		"expected at most 4096": append(slices.Clone(proof.Chain), make([]byte, 8<<10)),
		"expected at most 8":    slices.Repeat(proof.Chain, 9),
	} {
		if err := (pki.Proof{Signature: proof.Signature, Chain: chain}).Verify(k.Fingerprint(), []byte("x"),
			time.Now()); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("error is %v, want one about %q", err, words)
		}
	}
}
