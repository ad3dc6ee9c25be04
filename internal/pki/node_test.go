package pki_test

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"drover/internal/pki"
	"drover/internal/pki/pkitest"
)

// TestABrokerStandsInForNoServer: those on the fabric believe a broker's certificate, and those who join, and what is
// signed, do not.
func TestABrokerStandsInForNoServer(t *testing.T) {
	k := pkitest.New(t, "localhost")
	chain, key, err := k.IssueNode([]string{"broker.example"})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	shown := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	for name, client := range map[string]*tls.Config{
		"an agent": pki.ProxiesOf(3, trusting(t, k.CA())), "a proxy": pki.NoProxies(trusting(t, k.CA())),
		"a server": trusting(t, k.CA()),
	} {
		if err := shaken(t, client, shown); err != nil {
			t.Errorf("%s on the fabric does not believe it: %v", name, err)
		}
	}
	isBroker := func(what string, err error) {
		t.Helper()
		if pin, ok := errors.AsType[*pki.PinError](err); !ok || !pin.Broker {
			t.Errorf("%s: got %v, want that it is a broker", what, err)
		}
	}
	isBroker("who joins", shaken(t, pki.Pinned(k.Fingerprint()), shown))

	data := []byte("an answer")
	sum := sha256.Sum256(data)
	signer, ok := cert.PrivateKey.(crypto.Signer)
	if !ok {
		t.Fatal("its key signs nothing")
	}
	signature, err := signer.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	isBroker("what it has signed", pki.Proof{Signature: signature, Chain: cert.Certificate}.Verify(k.Fingerprint(),
		data, time.Now()))
}
