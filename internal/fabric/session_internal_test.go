package fabric

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/pki/pkitest"
)

// listener is a broker's TLS with ticket keys, which it may lose.
func listener(t testing.TB) *tls.Config {
	t.Helper()
	cfg := pkitest.New(t, "x").ServerTLS()
	cfg.SetSessionTicketKeys([][32]byte{{1}})
	return cfg
}

// meet connects a client to a broker, over the network: in a bubble no time passes meanwhile. It returns the handshake
// of the client and the error.
func meet(t testing.TB, s *Session, client, broker *tls.Config) (*handshake, tls.ConnectionState, error) {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := at.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = tls.Server(conn, broker).Write([]byte("x")) // the client tells how it ends
	}()
	reached, err := net.Dial("tcp", at.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cfg, shake := s.client(client, false)
	conn := tls.Client(reached, cfg)
	_, err = conn.Read(make([]byte, 1))
	_ = reached.Close()
	<-served
	return shake, conn.ConnectionState(), err
}

func anybody() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, ServerName: "x"} //nolint:gosec // a test
}

// TestASessionIsProvenEveryTwoDays: a chain of resumed sessions ends as long after its full handshake as a single one.
func TestASessionIsProvenEveryTwoDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broker, s := listener(t), &Session{}
		for n, step := range []struct {
			wait    time.Duration
			resumed bool
		}{
			{0, false}, {time.Hour, true}, {provenFor - time.Hour - 1, true}, {1, false}, {1, true},
		} {
			time.Sleep(step.wait)
			shake, state, err := meet(t, s, anybody(), broker)
			if err != nil || state.DidResume != step.resumed || shake.resumed.Load() != step.resumed {
				t.Fatalf("connection %d has resumed a session: %v, want %v; %v", n, state.DidResume, step.resumed, err)
			}
			if want := map[bool]tls.CurveID{false: tls.X25519MLKEM768, true: tls.X25519}[step.resumed]; state.CurveID != want {
				t.Errorf("connection %d has the exchange %s, want %s", n, state.CurveID, want)
			}
		}
	})
}

// TestNoFullHandshakeWithoutMLKEM: if the broker has lost its ticket keys, the client says nothing before it has had an
// exchange with ML-KEM. It then offers ML-KEM until a session is resumed.
func TestNoFullHandshakeWithoutMLKEM(t *testing.T) {
	broker, s := listener(t), &Session{}
	lose := func(key byte) { broker.SetSessionTicketKeys([][32]byte{{key}}) }
	expect := func(what string, resumed bool, exchange tls.CurveID) {
		t.Helper()
		_, state, err := meet(t, s, anybody(), broker)
		if err != nil || state.DidResume != resumed || state.CurveID != exchange {
			t.Errorf("%s: resumed: %v, exchange: %s, error: %v", what, state.DidResume, state.CurveID, err)
		}
	}
	expect("the first time", false, tls.X25519MLKEM768)
	lose(2)
	if _, _, err := meet(t, s, anybody(), broker); !errors.Is(err, errForgotten) {
		t.Errorf("the broker has lost its keys, and the client gets %v", err)
	}
	expect("after that", false, tls.X25519MLKEM768)
	lose(3)
	expect("lost again", false, tls.X25519MLKEM768)
	expect("resumed", true, tls.X25519MLKEM768)
	expect("resumed again", true, tls.X25519)
}

// TestASessionOfADroppedAuthority: the certificate of a session is verified again, and a session that fails is dropped.
func TestASessionOfADroppedAuthority(t *testing.T) {
	broker, s := listener(t), &Session{}
	dropped := errors.New("dropped")
	var trusted error
	c := anybody()
	c.VerifyConnection = func(tls.ConnectionState) error { return trusted }
	if _, _, err := meet(t, s, c, broker); err != nil {
		t.Fatal(err)
	}
	trusted = dropped
	if _, state, err := meet(t, s, c, broker); !errors.Is(err, dropped) || !state.DidResume {
		t.Errorf("a session of a dropped authority was offered: %v; its error is %v", state.DidResume, err)
	}
	trusted = nil
	if _, state, err := meet(t, s, c, broker); err != nil || state.DidResume {
		t.Errorf("the session is still in use: %v, %v", state.DidResume, err)
	}
}

// TestABusyBrokerLeavesTheSession: the session stays if a broker ends a handshake, but not if that goes on.
func TestABusyBrokerLeavesTheSession(t *testing.T) {
	broker, s := listener(t), &Session{}
	if _, _, err := meet(t, s, anybody(), broker); err != nil {
		t.Fatal(err)
	}
	busy := broker.Clone()
	busy.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("busy") }
	for _, step := range []struct {
		failures int
		resumed  bool
	}{{maxFailures - 1, true}, {maxFailures - 1, true}, {maxFailures, false}} {
		for range step.failures {
			if _, _, err := meet(t, s, anybody(), busy); err == nil {
				t.Fatal("the broker is not busy")
			}
		}
		if _, state, err := meet(t, s, anybody(), broker); err != nil || state.DidResume != step.resumed {
			t.Errorf("after %d failures a session is resumed: %v, %v", step.failures, state.DidResume, err)
		}
	}
}

// TestASessionCountsForTheFleet: an agent whose broker is lost resumes its session with another one.
func TestASessionCountsForTheFleet(t *testing.T) {
	one, two, s := listener(t), listener(t), &Session{}
	there, other := anybody(), anybody()
	other.ServerName = "y"
	if _, _, err := meet(t, s, there, one); err != nil {
		t.Fatal(err)
	}
	if _, state, err := meet(t, s, other, two); err != nil || !state.DidResume {
		t.Errorf("the session is resumed elsewhere: %v, %v", state.DidResume, err)
	}
}

// TestAConnectionRenewsItsSession: a link that lasts for weeks has a session of the last day, and a broker that does not
// answer is asked again.
func TestAConnectionRenewsItsSession(t *testing.T) {
	broker := listener(t)
	var handshakes, resumed, failing atomic.Int32
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = at.Close() })
	go func() { // outside of the bubble: it waits for the network
		for {
			conn, err := at.Accept()
			if err != nil {
				return
			}
			if failing.Load() > 0 {
				failing.Add(-1)
				_ = conn.Close()
				continue
			}
			secure := tls.Server(conn, broker)
			if secure.Handshake() == nil { // counted before the client can read anything
				handshakes.Add(1)
			}
			if secure.ConnectionState().DidResume {
				resumed.Add(1)
			}
			_, _ = secure.Write([]byte("INFO {}\r\n"))
			_, _ = conn.Read(make([]byte, 1<<10))
			_ = conn.Close()
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer // complete when the bubble is idle
		c := &Conn{
			log: slog.New(slog.NewTextHandler(&log, nil)), renewNow: make(chan struct{}, 1),
			dialer: &dialer{ctx: t.Context(), tls: anybody(), session: &Session{}},
		}
		c.dialer.tls.ServerName = ""
		c.up("tls://"+at.Addr().String(), func() {})
		time.Sleep(renewAfter - time.Second)
		if n := handshakes.Load(); n != 0 {
			t.Errorf("the session was renewed %d times within hours", n)
		}
		failing.Store(2)
		time.Sleep(renewSpread + 2*renewRetry + time.Minute)
		if found, _ := c.dialer.session.offer(time.Now()); found.state == nil || handshakes.Load() != 1 {
			t.Errorf("the session was renewed %d times within a day, there is one: %v", handshakes.Load(), found.state != nil)
		}
		if n := strings.Count(log.String(), "level=WARN msg=\"connected, but cannot renew the TLS session; retrying\""); n != 1 {
			t.Errorf("two failures in a row are told %d times: %s", n, &log)
		}
		time.Sleep(20 * 24 * time.Hour)
		if found, _ := c.dialer.session.offer(time.Now()); found.state == nil {
			t.Error("after weeks there is no session")
		}
		if n := resumed.Load(); n != 0 {
			t.Errorf("%d of %d sessions descend from earlier ones", n, handshakes.Load())
		}
		before := handshakes.Load()
		c.RenewSession()
		if found, _ := c.dialer.session.offer(time.Now()); found.state != nil {
			t.Error("the session is not dropped")
		}
		time.Sleep(renewSoon)
		if n := handshakes.Load() - before; n != 1 {
			t.Errorf("the dropped session was renewed %d times within a minute", n)
		}
		c.down(errors.New("lost"))
		c.renewals.Wait()
		before = handshakes.Load()
		time.Sleep(10 * 24 * time.Hour)
		if n := handshakes.Load(); n != before {
			t.Errorf("%d sessions were renewed without a link", n-before)
		}
	})
}
