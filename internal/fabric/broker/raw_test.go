package broker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
)

// rawAgent speaks NATS without the manners of fabric.Conn, as an agent that was taken over would.
type rawAgent struct {
	conn *nats.Conn
	key  string
}

func dialRaw(t *testing.T, b *broker.Broker) rawAgent {
	t.Helper()
	who := issue(t, b)
	conn, err := nats.Connect(b.URL(), nats.UserJWT(func() (string, error) { return who.JWT, nil }, who.Key.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return rawAgent{conn: conn, key: who.key}
}

// TestLongHeadersAreLeftOut: a server reads no header that anybody can send, also where it is connected to its broker
// within the process.
func TestLongHeadersAreLeftOut(t *testing.T) {
	b := start(t)
	server, err := fabric.Dial(t.Context(), fabric.DialConfig{
		Broker: b, Identity: b.ServerIdentity(), Name: t.Name(),
		Log: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	a := dialRaw(t, b)
	heard := make(chan string, 10)
	stop, err := server.Serve(reports(a.key), "", 1, func(_ context.Context, _ string, data []byte) []byte {
		heard <- string(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	long := nats.NewMsg(reports(a.key))
	long.Header.Set("X", strings.Repeat("x", 100_000))
	long.Data = []byte("with a header")
	if err := a.conn.PublishMsg(long); err != nil {
		t.Fatal(err)
	}
	if err := a.conn.Publish(reports(a.key), []byte("without")); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-heard:
		if got != "without" {
			t.Errorf("it has heard what came %s", got)
		}
	case <-time.After(patience):
		t.Error("it has heard nothing")
	}
}
