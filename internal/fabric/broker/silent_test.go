package broker_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
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
