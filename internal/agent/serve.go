package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"drover/internal/fabric"
	"drover/internal/wire"
)

// serve keeps the link to the server. It goes to other addresses when the server names others, and to those that
// counted before when the present ones have led nowhere for some time.
func (a *Agent) serve(ctx context.Context) error {
	for attempt := 0; ctx.Err() == nil; {
		moved, err := a.serveAt(ctx, a.trust.addresses(attempt))
		if err != nil {
			return err
		}
		if attempt++; moved {
			attempt = 0
		}
	}
	return nil
}

// serveAt keeps the link through some addresses, until ctx ends or others are to be tried; moved says that the server
// has named others.
func (a *Agent) serveAt(ctx context.Context, urls []string) (moved bool, err error) {
	cfg := a.dial
	cfg.URLs = urls
	cfg.OnConnected = func() {
		a.conn.setUp(true)
		a.confirmation.noteLink()
		a.reporter.Connected()
	}
	cfg.OnLost = func() {
		a.conn.setUp(false)
		a.acceptance.reset()
	}
	conn, err := fabric.Dial(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, fmt.Errorf("cannot dial: %w", err)
	}
	defer a.conn.setUp(false)
	defer a.acceptance.reset() // closing is no loss that anybody is told of
	defer conn.Close()
	cloud := a.trust.current().Cloud
	a.conn.set(conn, wire.ReportSubject(cloud, a.key))
	_, err = conn.Serve(wire.OrderSubject(cloud, a.key), "", orderWorkers, //nolint:contextcheck // Close ends it
		func(ctx context.Context, _ string, data []byte) []byte { return a.handleOrders(ctx, data) })
	if err != nil {
		return false, fmt.Errorf("cannot listen for orders: %w", err)
	}
	// Of its own, so that no order that waits for the disk is in its way.
	_, err = conn.Serve(wire.PingSubject(cloud, a.key), "", 1, //nolint:contextcheck // Close ends it
		func(context.Context, string, []byte) []byte { return []byte("here") })
	if err != nil {
		return false, fmt.Errorf("cannot listen for pings: %w", err)
	}
	a.conn.setServing()
	return a.awaitMove(ctx, conn), nil
}

// linkCheckInterval is how often it is looked at whether the link leads anywhere.
const linkCheckInterval = 5 * time.Second

// awaitMove waits until the link is to be made anew elsewhere, and returns whether the server has named other
// addresses.
func (a *Agent) awaitMove(ctx context.Context, conn *fabric.Conn) (moved bool) {
	look := time.NewTicker(linkCheckInterval)
	defer look.Stop()
	for away := time.Duration(0); ; {
		select {
		case <-a.trust.addressesChanged:
			a.cfg.Log.Info("server announced other addresses, reconnecting there", "urls", a.trust.current().URLs)
			return true
		case <-look.C:
			if away += linkCheckInterval; conn.Connected() {
				away = 0
			}
			if away >= tryFormerAfter && len(a.trust.current().Former) > 0 {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}

// hostname is what the host calls itself. It is only shown.
func hostname() string {
	name, _ := os.Hostname()
	return name
}
