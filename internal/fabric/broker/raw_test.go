package broker_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"drover/internal/fabric/broker"
)

// rawAgent speaks NATS without the manners of fabric.Conn, as an agent that was taken over would.
type rawAgent struct {
	conn *nats.Conn
	key  string
}

func dialRaw(t *testing.T, b *broker.Broker) rawAgent {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := b.IssueAgent(key)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(b.URL(), nats.UserJWT(func() (string, error) { return token, nil }, pair.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return rawAgent{conn: conn, key: key}
}
