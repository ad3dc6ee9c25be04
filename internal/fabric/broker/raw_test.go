package broker_test

import (
	"testing"

	"github.com/nats-io/nats.go"

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
