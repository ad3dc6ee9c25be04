package broker_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"drover/internal/fabric/broker"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
	"drover/internal/test/harness"
)

// joined starts a broker that others may join, which knows some.
func joined(t *testing.T, dir string, between *tls.Config, k *pki.Manager, known ...*broker.Broker) *broker.Broker {
	t.Helper()
	c := &broker.Cluster{Listen: "127.0.0.1:0", TLS: between}
	for _, b := range known {
		c.Routes = append(c.Routes, net.JoinHostPort("127.0.0.1", strconv.Itoa(b.ClusterPort())))
	}
	return startWith(t, broker.Config{Dir: dir, TLS: k.ServerTLS(), Cluster: c})
}

func peerTLS(t *testing.T, k *pki.Manager) *tls.Config {
	t.Helper()
	c, err := k.PeerTLS()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answered asks for an agent once.
func answered(t *testing.T, b *broker.Broker, k *pki.Manager, key string) bool {
	t.Helper()
	s := dialTLS(t, b, b.ServerIdentity(), trusting(t, k))
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	reply, err := s.Request(ctx, orders(key), []byte("x"))
	return err == nil && string(reply) == "x"
}

// TestBrokersTogether: an agent at one broker is reached through another one, and through a third that knows only one
// of them.
func TestBrokersTogether(t *testing.T) {
	k, dir := pkitest.New(t), filepath.Join(t.TempDir(), "fabric")
	first := joined(t, dir, peerTLS(t, k), k)
	second := joined(t, dir, peerTLS(t, k), k, first)
	third := joined(t, dir, peerTLS(t, k), k, second)
	who := issue(t, first)
	agent := dialTLS(t, first, who.Identity, trusting(t, k))
	if _, err := agent.Serve(orders(who.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*broker.Broker{first, second, third} {
		eventually(t, "an answer", func() bool { return answered(t, b, k, who.key) })
	}
	for _, b := range []*broker.Broker{third, first} { // the last one is where it is
		if err := b.RefreshRevoked(func() ([]string, error) { return []string{who.key}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the agent to be cut off", func() bool { return !agent.Connected() })
}

// TestBrokersOfOthers: a broker without a certificate of this fleet's, and one with that of a server, are not let in.
func TestBrokersOfOthers(t *testing.T) {
	k, other, dir := pkitest.New(t), pkitest.New(t), filepath.Join(t.TempDir(), "fabric")
	log := &harness.Log{}
	first, err := broker.Start(t.Context(), broker.Config{
		Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(log, nil)), TLS: k.ServerTLS(),
		Agents:  broker.Rights{Subscribe: []string{"test.agent.{{subject()}}.>"}},
		Cluster: &broker.Cluster{Listen: "127.0.0.1:0", TLS: peerTLS(t, k)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(first.Shutdown)
	who := issue(t, first)
	agent := dialTLS(t, first, who.Identity, trusting(t, k))
	if _, err := agent.Serve(orders(who.key), "", 1, echo); err != nil {
		t.Fatal(err)
	}
	refused := func() int { return strings.Count(log.String(), "TLS route handshake error") }
	trustful := func(shown *tls.Config) *tls.Config {
		c := shown.Clone()
		c.InsecureSkipVerify, c.VerifyConnection = true, nil
		return c
	}
	leaf := k.ServerTLS()
	leaf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return leaf.GetCertificate(nil)
	}
	for name, between := range map[string]*tls.Config{
		"of another fleet": trustful(peerTLS(t, other)), "with the certificate of a server": trustful(leaf),
		"with none": {InsecureSkipVerify: true},
	} {
		before := refused()
		stranger := joined(t, dir, between, k, first)
		eventually(t, "a broker "+name+" to be refused", func() bool { return refused() > before })
		if answered(t, stranger, k, who.key) {
			t.Errorf("a broker %s is let in", name)
		}
	}
	if !answered(t, first, k, who.key) {
		t.Error("the agent does not answer at all: nothing was tried")
	}
}

func TestClusterAddresses(t *testing.T) {
	k := pkitest.New(t)
	for _, c := range []*broker.Cluster{{Listen: "nowhere"}, {Listen: "127.0.0.1:0", Routes: []string{"%zz"}}} {
		c.TLS = peerTLS(t, k)
		_, err := broker.Start(t.Context(), broker.Config{
			Dir:    filepath.Join(t.TempDir(), "fabric"),
			Listen: "127.0.0.1:0", Log: testLog(t), Cluster: c,
		})
		if err == nil || !strings.Contains(err.Error(), "cannot start broker") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
