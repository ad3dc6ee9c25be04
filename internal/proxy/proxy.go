// Package proxy is the assembly of drover proxy: it serves the agents of one area that have no route to the servers.
// It runs its own NATS server, joined to the servers' brokers as a leaf node, and forwards join requests. It owns the
// uplink, and rejects removed agents. It reads no message that it carries, and may carry only messages of its own
// area. It answers what agents ask about packages by itself, and keeps what the servers have answered for a while.
package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"drover/internal/fabric"
	"drover/internal/fabric/broker"
	"drover/internal/group"
	"drover/internal/httpd"
	"drover/internal/service"
	"drover/internal/wire"
)

// Config is what a proxy needs.
type Config struct {
	// Dir is the proxy's own directory, in which it has joined a server.
	Dir string
	// Listen is the address and port for the fabric, HTTP that for hosts that join; port 0 is any.
	Listen, HTTP string
	// Build is the version to report.
	Build string
	// Service is the program around the proxy; nil in tests.
	Service *service.Service
	Log     *slog.Logger
}

// Proxy is an assembled proxy. New opens its HTTP listener, so that its address is known.
type Proxy struct {
	cfg   Config
	state *enrolmentState
	http  net.Listener
}

// New opens the directory and the HTTP listener. The caller runs it with Run.
func New(ctx context.Context, cfg Config) (*Proxy, error) {
	h, err := open(cfg.Dir)
	if err != nil {
		return nil, err
	}
	l, err := httpd.Listen(ctx, cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for hosts that join: %w (--http takes another address)", err)
	}
	return &Proxy{cfg: cfg, state: h, http: l}, nil
}

// Enrolment returns the proxy's present enrolment.
func (p *Proxy) Enrolment() wire.ProxyEnrolment { return p.state.enrolment() }

// URL returns the address at which hosts join.
func (p *Proxy) URL() string { return "https://" + p.http.Addr().String() }

// Run serves agents until ctx ends, with or without a connection to a server. It calls tell with the address each time
// that agents can connect.
func (p *Proxy) Run(ctx context.Context, tell func(fabric string)) error {
	defer p.http.Close() //nolint:errcheck // already closed if it was served
	switching := &switcher{}
	return group.Run(ctx,
		group.Part{Name: "fabric", Run: func(ctx context.Context) error {
			for ctx.Err() == nil {
				if err := p.serve(ctx, switching, tell); err != nil {
					return err
				}
			}
			return nil
		}},
		group.Part{Name: "http", Run: func(ctx context.Context) error {
			return newJoinHandler(switching.join, switching.ready, p.cfg.Log).serve(ctx, p.http, p.state.listenerTLS())
		}},
	)
}

// serve runs a relay until ctx ends, or until the connection to the servers must change.
func (p *Proxy) serve(ctx context.Context, switching *switcher, tell func(fabric string)) error {
	p.cfg.Service.Hold()
	e := p.state.enrolment()
	relay, err := broker.StartRelay(ctx, broker.RelayConfig{
		Dir: filepath.Join(p.cfg.Dir, relayDir), Listen: p.cfg.Listen, TLS: p.state.listenerTLS(),
		Account: e.Account,
		Hubs:    e.Hubs, HubTLS: p.state.serverTLS(), Identity: p.state.id.fabric(e), Log: p.cfg.Log,
	})
	if err != nil {
		return err
	}
	defer relay.Shutdown()
	conn, err := fabric.Dial(ctx, fabric.DialConfig{
		URLs: []string{relay.URL()}, Identity: p.state.id.fabric(e), TLS: p.state.ownListenerTLS(), Name: "proxy",
		Log: p.cfg.Log.With("connection", "own"),
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer conn.Close()
	up := newUplink(conn, relay, p.state, p.cfg.Build, p.cfg.Log)
	up.alive = p.cfg.Service.Beat
	//nolint:contextcheck // Close ends it
	_, err = conn.Serve(wire.ProxyNewsSubject(e.Area, p.state.id.public), "", 1,
		func(_ context.Context, _ string, data []byte) []byte {
			up.hear(data)
			return nil
		})
	if err != nil {
		return fmt.Errorf("cannot listen for news: %w", err)
	}
	switching.set(up)
	tell(relay.URL())
	return group.Run(ctx,
		group.Part{Name: "watchdog", Run: up.watch},
		group.Part{Name: "enrolment", Run: up.keep},
		group.Part{Name: "packages", Run: func(ctx context.Context) error { return p.givePackages(ctx, conn, e) }},
		group.Part{Name: "way", Run: func(ctx context.Context) error {
			select {
			case <-up.moved:
				p.cfg.Log.InfoContext(ctx, "servers moved, reconnecting there", "servers", p.state.enrolment().Hubs)
			case <-ctx.Done():
			}
			return nil
		}},
	)
}
