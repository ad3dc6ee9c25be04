package uplink

import (
	"context"
	"fmt"
	"time"

	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/wire"
)

// Handlers handle the messages of the server.
type Handlers struct {
	Orders, Logs Handler
	// Pinged is called when a server has pinged the agent: then the server wants a report, too. It must return quickly.
	Pinged func()
}

const (
	// orderWorkers is how many messages with orders the agent handles at the same time.
	orderWorkers = 4
	// logWorkers is the same for questions about logs. Most of them wait for text.
	logWorkers = 32
)

// Run keeps the link to the server and passes on its orders, until ctx ends. It moves to other addresses if the server
// announces them, and to the former addresses if the present ones have not worked for tryFormerAfter. The time limits
// of the start's holds count only while Run runs.
func (l *Link) Run(ctx context.Context, handle Handlers) error {
	l.start()
	defer l.stop()
	for attempt := 0; ctx.Err() == nil; {
		moved, err := l.serveAt(ctx, l.trust.addresses(attempt), handle)
		if err != nil {
			return err
		}
		if attempt++; moved {
			attempt = 0
		}
	}
	return nil
}

// serveAt keeps the link through these addresses, until ctx ends or it is time to try others; moved says that the
// server has announced others.
func (l *Link) serveAt(ctx context.Context, urls []string, handle Handlers) (moved bool, err error) {
	cfg := l.dial
	cfg.URLs, cfg.OnConnected, cfg.OnLost = urls, l.Connected, l.Lost
	conn, err := fabric.Dial(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, fmt.Errorf("cannot dial: %w", err)
	}
	defer l.Lost() // Close does not call OnLost
	defer conn.Close()
	cloud := l.trust.current().Cloud
	_, err = conn.Serve(wire.OrderSubject(cloud, l.key), "", orderWorkers, //nolint:contextcheck // Close ends it
		func(ctx context.Context, _ string, data []byte) []byte {
			return l.answer(ctx, frame.Orders, frame.Receipt, data, handle.Orders)
		})
	if err != nil {
		return false, fmt.Errorf("cannot listen for orders: %w", err)
	}
	// Pings have a worker of their own, so that no order that waits for the disk delays them.
	_, err = conn.Serve(wire.PingSubject(cloud, l.key), "", 1, //nolint:contextcheck // Close ends it
		func(_ context.Context, _ string, data []byte) []byte { return l.here(data, handle.Pinged) })
	if err != nil {
		return false, fmt.Errorf("cannot listen for pings: %w", err)
	}
	_, err = conn.Serve(wire.LogSubject(cloud, l.key), "", logWorkers, //nolint:contextcheck // Close ends it
		func(ctx context.Context, _ string, data []byte) []byte {
			return l.answer(ctx, frame.Question, frame.Reply, data, handle.Logs)
		})
	if err != nil {
		return false, fmt.Errorf("cannot listen for questions about logs: %w", err)
	}
	l.use(conn, wire.ReportSubject(cloud, l.key))
	defer l.drop()
	return l.awaitMove(ctx, conn), nil
}

// linkCheckInterval is how often the agent checks whether the link works.
const linkCheckInterval = 5 * time.Second

// awaitMove waits until it is time to connect elsewhere, and reports whether the server has announced other addresses.
func (l *Link) awaitMove(ctx context.Context, conn *fabric.Conn) (moved bool) {
	look := time.NewTicker(linkCheckInterval)
	defer look.Stop()
	for away := time.Duration(0); ; {
		select {
		case <-l.trust.addressesChanged:
			l.log.Info("server announced other addresses, reconnecting there", "urls", l.trust.current().URLs)
			return true
		case <-look.C:
			if away += linkCheckInterval; conn.Connected() {
				away = 0
			}
			if away >= tryFormerAfter && len(l.trust.current().Former) > 0 {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
}
