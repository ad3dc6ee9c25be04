package lab

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"drover/internal/pki"
	"drover/internal/wire"
)

// The bare server is core NATS with the same TLS and timeouts as drover's fabric, and nothing else: no accounts, no
// credentials.

// BareServerStage is the first argument with which a program is to call ServeBare.
const BareServerStage = "bare-server"

// ServeBare is the life of the bare server; args are the directory of its authority.
func ServeBare(args []string) error {
	manager, err := pki.Open(pki.Config{
		Dir: args[0], Names: []string{"127.0.0.1"}, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, AuthTimeout: 15, PingInterval: 75 * time.Second,
		MaxPayload: wire.MaxMessage,
		TLS:        true, TLSConfig: manager.ServerTLS(), TLSHandshakeFirst: true, TLSTimeout: 15,
	})
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(fleetPatience) {
		return errors.New("the bare server does not listen")
	}
	return Obey(context.Background(), map[string]func(context.Context) (string, error){
		"listen": func(context.Context) (string, error) { return srv.ClientURL(), nil },
	})
}

// BareConn connects to the bare server at url, whose authority is in dir.
func BareConn(dir, url string) (*nats.Conn, error) {
	pem, err := os.ReadFile(filepath.Join(dir, pki.CAFile))
	if err != nil {
		return nil, err
	}
	trust, err := pki.Trusting(string(pem))
	if err != nil {
		return nil, err
	}
	return nats.Connect(url, nats.Secure(trust), nats.TLSHandshakeFirst(), nats.Timeout(fleetPatience),
		nats.MaxReconnects(0))
}
