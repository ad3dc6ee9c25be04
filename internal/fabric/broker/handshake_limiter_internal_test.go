package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestHandshakeLimiter: who finds no place waits for one for a while; who finds no place to wait is sent away at once.
func TestHandshakeLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHandshakeLimiter(1, 1)
		first, leave := context.WithCancel(t.Context())
		if err := s.enter(first); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		second := make(chan error, 1)
		go func() { second <- s.enter(t.Context()) }()
		synctest.Wait()
		if err := s.enter(t.Context()); !errors.Is(err, errBusy) || time.Since(begun) > 0 {
			t.Errorf("the third came in, or waited for %s: %v", time.Since(begun), err)
		}
		leave()
		if err := <-second; err != nil || time.Since(begun) > 0 {
			t.Errorf("the second was not let in when the first had left: %v after %s", err, time.Since(begun))
		}
		time.Sleep(slotTime)
		synctest.Wait()
	})
}

// TestHandshakeLimiterIsNotBlocked: handshakes that never end keep others out for a moment only.
func TestHandshakeLimiterIsNotBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places = 3
		s := newHandshakeLimiter(places, places)
		for range places {
			if err := s.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if err := s.enter(t.Context()); err != nil || time.Since(begun) != slotTime {
			t.Errorf("it was let in after %s: %v", time.Since(begun), err)
		}
		time.Sleep(slotTime)
		synctest.Wait()
	})
}

// TestHandshakeLimiterSendsAway: nobody waits for longer than a client has patience, and who has hung up does not wait
// at all.
func TestHandshakeLimiterSendsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHandshakeLimiter(0, 8)
		begun := time.Now()
		if err := s.enter(t.Context()); !errors.Is(err, errBusy) || time.Since(begun) != maxSlotWait {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		begun = time.Now()
		if err := s.enter(gone); !errors.Is(err, errBusy) || time.Since(begun) != 0 {
			t.Errorf("one that had hung up waited for %s: %v", time.Since(begun), err)
		}
	})
}

// TestHandshakeLimiterOpensWhenReady: as long as the server takes no reports, clients wait as for a turn.
func TestHandshakeLimiterOpensWhenReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := make(chan struct{})
		s := newHandshakeLimiter(1, 2)
		s.holdUntil(ready)
		begun := time.Now()
		if err := s.enter(t.Context()); !errors.Is(err, errBusy) || time.Since(begun) != maxSlotWait {
			t.Errorf("a client of a server that is not ready got %v after %s", err, time.Since(begun))
		}
		entered := make(chan error, 1)
		go func() { entered <- s.enter(t.Context()) }()
		synctest.Wait()
		begun = time.Now()
		close(ready)
		if err := <-entered; err != nil || time.Since(begun) != 0 {
			t.Errorf("when the server was ready, it waited for another %s: %v", time.Since(begun), err)
		}
		time.Sleep(slotTime)
		synctest.Wait()
	})
}

// TestLimitRejectsFirst: whoever has no turn is sent away before anything else is asked.
func TestLimitRejectsFirst(t *testing.T) {
	inner := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		t.Error("it was asked for its configuration")
		return &tls.Config{MinVersion: tls.VersionTLS13}, nil
	}
	cfg := newHandshakeLimiter(0, 0).limit(&tls.Config{GetConfigForClient: inner})
	if _, err := cfg.GetConfigForClient(&tls.ClientHelloInfo{}); !errors.Is(err, errBusy) {
		t.Errorf("it got %v", err)
	}
}

// TestLimitForgetsWhoHasLeft: a client that gives up while it waits takes no place from those that still wait.
func TestLimitForgetsWhoHasLeft(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = tls.Client(client, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	l := newHandshakeLimiter(1, 1)
	first, leave := context.WithCancel(t.Context())
	if err := l.enter(first); err != nil {
		t.Fatal(err)
	}
	shaken := make(chan error, 1)
	asked := make(chan struct{})
	cfg := l.limit(&tls.Config{MinVersion: tls.VersionTLS13})
	ask := cfg.GetConfigForClient
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if left(accepted.(*net.TCPConn)) {
			t.Error("a client that waits for an answer has left")
		}
		close(asked)
		return ask(hello)
	}
	go func() { shaken <- tls.Server(accepted, cfg).HandshakeContext(t.Context()) }()
	<-asked
	client.Close()
	for begun := time.Now(); !left(accepted.(*net.TCPConn)); runtime.Gosched() { // the kernel delivers the end
		if time.Since(begun) > time.Minute {
			t.Fatal("the end of the connection does not arrive")
		}
	}
	leave()
	if err := <-shaken; !errors.Is(err, errLeft) {
		t.Errorf("the handshake of one that has left ended with %v", err)
	}
	if err := l.enter(t.Context()); err != nil {
		t.Errorf("its place is not free: %v", err)
	}
}
