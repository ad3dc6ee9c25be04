package broker_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestOneUserHasNotAllPlaces: who has the key of one agent cannot take the memory of the broker, and the places of
// others, by connecting again and again.
func TestOneUserHasNotAllPlaces(t *testing.T) {
	b := start(t)
	other := newAgent(t, b)
	await(t, "another agent", other.up)
	id := issue(t, b)
	var all []*nats.Conn
	for range 60 {
		conn, err := nats.Connect(b.URL(), nats.NoReconnect(),
			nats.UserJWT(func() (string, error) { return id.JWT, nil }, id.Key.Sign))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		all = append(all, conn)
	}
	open := func() (n int) {
		for _, conn := range all {
			if conn.IsConnected() {
				n++
			}
		}
		return n
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for open() > 8 {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%d connections of one user are open", open())
		}
	}
	if n := open(); n != 8 || !all[0].IsConnected() {
		t.Errorf("%d connections are open, the first one: %v", n, all[0].IsConnected())
	}
	if !other.Connected() {
		t.Error("another agent was cut off")
	}
}
