package broker_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/fabric/broker"
	"drover/internal/pki/pkitest"
	"drover/internal/test/harness"
)

// occupy listens on an address until the test ends, or until it is closed.
func occupy(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestAddressesThatAreTaken: who can't listen everywhere does not run at all, says where, and leaves the other
// addresses to others.
func TestAddressesThatAreTaken(t *testing.T) {
	k := pkitest.New(t)
	hub := start(t)
	account, err := hub.Account()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "fabric")
	type at struct{ clients, leaves, cluster string }
	asBroker := func(a at) error {
		b, err := broker.Start(t.Context(), broker.Config{
			Dir: dir, Listen: a.clients, Leaves: a.leaves, TLS: k.ServerTLS(), Log: testLog(t),
			Cluster: &broker.Cluster{Listen: a.cluster, TLS: peerTLS(t, k)},
		})
		if err == nil {
			b.Shutdown()
		}
		return err
	}
	asRelay := func(a at) error {
		r, err := broker.StartRelay(t.Context(), broker.RelayConfig{
			Dir: dir, Listen: a.clients, Account: account, Hubs: []string{a.leaves}, Identity: issue(t, hub).Identity,
			Log: testLog(t),
		})
		if err == nil {
			r.Shutdown()
		}
		return err
	}
	for name, c := range map[string]struct {
		start func(at) error
		taken func(at) string
	}{
		"clients of a broker": {asBroker, func(a at) string { return a.clients }},
		"proxies":             {asBroker, func(a at) string { return a.leaves }},
		"other brokers":       {asBroker, func(a at) string { return a.cluster }},
		"clients of a relay":  {asRelay, func(a at) string { return a.clients }},
	} {
		t.Run(name, func(t *testing.T) {
			a := at{harness.FreeAddress(t), harness.FreeAddress(t), harness.FreeAddress(t)}
			other := occupy(t, c.taken(a))
			if err := c.start(a); err == nil ||
				!strings.Contains(err.Error(), c.taken(a)+": bind: address already in use") {
				t.Errorf("while %s is taken: %v", c.taken(a), err)
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			for _, address := range []string{a.clients, a.leaves, a.cluster} {
				if err := occupy(t, address).Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.start(a); err != nil {
				t.Errorf("once it is free: %v", err)
			}
		})
	}
}

// TestAnotherPortForClients: a broker whose port of last time is taken takes another one for clients; proxies and other
// brokers find it where it was.
func TestAnotherPortForClients(t *testing.T) {
	k, dir := pkitest.New(t), filepath.Join(t.TempDir(), "fabric")
	leaves, cluster := harness.FreeAddress(t), harness.FreeAddress(t)
	begin := func() *broker.Broker {
		return startWith(t, broker.Config{
			Dir: dir, Leaves: leaves, TLS: k.ServerTLS(),
			Cluster: &broker.Cluster{Listen: cluster, TLS: peerTLS(t, k)},
		})
	}
	first := begin()
	first.Shutdown()
	occupy(t, strings.TrimPrefix(first.URL(), "tls://"))
	second := begin()
	if second.Port() == first.Port() {
		t.Errorf("port %d is taken", second.Port())
	}
	for _, address := range []string{strings.TrimPrefix(second.URL(), "tls://"), leaves, cluster} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = conn.Close() // nothing was said
	}
}
