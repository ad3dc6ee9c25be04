package broker_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/fabric/fabrictest"
	"drover/internal/pki"
	"drover/internal/pki/pkitest"
)

func startTLS(t *testing.T, k *pki.Manager) *broker.Broker {
	t.Helper()
	return startWith(t, broker.Config{Dir: filepath.Join(t.TempDir(), "fabric"), TLS: k.ServerTLS()})
}

func dialTLS(t *testing.T, b *broker.Broker, id fabric.Identity, client *tls.Config) *fabric.Conn {
	t.Helper()
	c, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: []string{b.URL()}, Identity: id, TLS: client,
		Name: t.Name(), Log: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func trusting(t *testing.T, k *pki.Manager) *tls.Config {
	t.Helper()
	c, err := pki.Trusting(k.CA())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContractOverTLS(t *testing.T) {
	k := pkitest.New(t)
	fabrictest.Run(t, func(t *testing.T) fabrictest.Ends {
		b := startTLS(t, k)
		a := issue(t, b)
		return fabrictest.Ends{
			Server: dialTLS(t, b, b.ServerIdentity(), trusting(t, k)), Agent: dialTLS(t, b, a.Identity, trusting(t, k)),
			ServerSubject: reports(a.key), AgentSubject: orders(a.key),
		}
	})
}

// TestClientsWaitUntilTheServerIsReady: the server's own connection does not wait, because the server needs it first.
func TestClientsWaitUntilTheServerIsReady(t *testing.T) {
	k, ready := pkitest.New(t), make(chan struct{})
	b := startWith(t, broker.Config{Dir: filepath.Join(t.TempDir(), "fabric"), TLS: k.ServerTLS(), Ready: ready})
	id := b.ServerIdentity()
	own, err := fabric.Dial(t.Context(), fabric.DialConfig{Broker: b, Identity: id, Name: t.Name(), Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	if !own.Connected() {
		t.Error("the server does not reach its own broker")
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "tls://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := tls.Client(conn, trusting(t, k)).HandshakeContext(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a handshake before the server is ready ends with %v", err)
	}
	close(ready)
	if !dialTLS(t, b, id, trusting(t, k)).Connected() {
		t.Error("a client does not connect once the server is ready")
	}
}

func TestOnlyTheServersOwnBrokerIsBelieved(t *testing.T) {
	k := pkitest.New(t)
	b := startTLS(t, k)
	if !strings.HasPrefix(b.URL(), "tls://") {
		t.Errorf("URL is %s", b.URL())
	}
	id := b.ServerIdentity()
	if !dialTLS(t, b, id, trusting(t, k)).Connected() || !dialTLS(t, b, id, pki.Pinned(k.Fingerprint())).Connected() {
		t.Error("the right broker is not believed")
	}
	if dialTLS(t, b, id, trusting(t, pkitest.New(t))).Connected() {
		t.Error("a broker of another authority is believed")
	}
	plain := startIn(t, filepath.Join(t.TempDir(), "fabric"))
	if dialTLS(t, plain, plain.ServerIdentity(), trusting(t, k)).Connected() {
		t.Error("a broker without TLS is believed")
	}
}

// TestNothingIsToldBeforeTheHandshake: a stranger on the network learns no name, version or nonce.
func TestNothingIsToldBeforeTheHandshake(t *testing.T) {
	b := startTLS(t, pkitest.New(t))
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "tls://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("CONNECT {}\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	n, _ := conn.Read(answer) // the end of the connection is an answer too
	if strings.Contains(string(answer[:n]), "INFO") || strings.Contains(string(answer[:n]), "PONG") {
		t.Errorf("it is told %q", answer[:n])
	}
}

// TestServerConnectsWithinItsProcess: the server is connected to its own broker without a handshake, and all works as
// over the network.
func TestServerConnectsWithinItsProcess(t *testing.T) {
	k := pkitest.New(t)
	fabrictest.Run(t, func(t *testing.T) fabrictest.Ends {
		b := startTLS(t, k)
		a := issue(t, b)
		own, err := fabric.Dial(t.Context(), fabric.DialConfig{
			Broker: b, Identity: b.ServerIdentity(), Name: t.Name(),
			Log: testLog(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(own.Close)
		if !own.Connected() {
			t.Error("the server is not connected when Dial returns")
		}
		return fabrictest.Ends{
			Server: own, Agent: dialTLS(t, b, a.Identity, trusting(t, k)), ServerSubject: reports(a.key),
			AgentSubject: orders(a.key),
		}
	})
}
