package broker

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestACheckCountsUntilSomebodyConnects: a check of all connections is complete if it knows the user of each, and then
// only a new connection asks for another.
func TestACheckCountsUntilSomebodyConnects(t *testing.T) {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, Username: "a", Password: "b", AuthTimeout: authTimeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer shutdown(srv)
	const users = 3
	for range users {
		conn, err := nats.Connect(srv.ClientURL(), nats.UserInfo("a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	log := slog.New(slog.DiscardHandler)
	for before, want := range map[uint64]census{
		0:     {made: users, left: users},
		users: {made: users, left: users, complete: true},
	} {
		if got := closeExcess(srv, log, before); got != want {
			t.Errorf("after %d connections the check finds %+v, want %+v", before, got, want)
		}
	}
	if got := connectionsMade(srv); got != users {
		t.Errorf("%d connections were made, want %d", got, users)
	}
	nobody, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close() //nolint:errcheck // nothing was written
	for srv.NumClients() != users+1 {
		runtime.Gosched()
	}
	if got, want := closeExcess(srv, log, users+1), (census{made: users + 1, left: users + 1}); got != want {
		t.Errorf("with a connection without a user the check finds %+v, want %+v", got, want)
	}
}
