package broker_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"drover/internal/fabric"
)

// TestDialOfASilentBroker: nobody who is told to stop waits for a broker that takes the connection and says nothing.
func TestDialOfASilentBroker(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err == nil { // the handshake has begun
			stop()
		}
		<-t.Context().Done()
	}()
	begun := time.Now()
	conn, err := fabric.Dial(ctx, fabric.DialConfig{
		URLs: []string{"tls://" + listener.Addr().String()}, Identity: issue(t, start(t)).Identity,
		TLS: &tls.Config{InsecureSkipVerify: true}, Name: t.Name(), Log: testLog(t),
	})
	if err == nil {
		conn.Close()
	}
	if took := time.Since(begun); !errors.Is(err, context.Canceled) || took > patience/6 {
		t.Errorf("after %s: %v", took, err)
	}
}

// TestFailedHandshakesAreForgotten: a client that is sent away again and again, as by a broker that has too much to do,
// does not collect connections until it has no descriptors left.
func TestFailedHandshakesAreForgotten(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const attempts = 4
	arrived := make(chan net.Conn, attempts)
	go func() {
		for range attempts {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("no TLS is spoken here"))
			arrived <- conn
		}
	}()
	c, err := fabric.Dial(t.Context(), fabric.DialConfig{
		URLs: []string{"tls://" + listener.Addr().String()}, Identity: issue(t, start(t)).Identity,
		TLS: &tls.Config{InsecureSkipVerify: true}, Name: t.Name(), Log: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var conns []net.Conn
	for range attempts {
		select {
		case conn := <-arrived:
			defer conn.Close()
			conns = append(conns, conn)
		case <-time.After(patience):
			t.Fatalf("after %d attempts there is no other", len(conns))
		}
	}
	for i, conn := range conns[:attempts-1] {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection of attempt %d is still open when there have been %d", i+1, attempts)
		}
	}
}
