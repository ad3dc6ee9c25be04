package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drover/internal/fabric"
	"drover/internal/wire"
)

// serverLink is the reporter's way to the server. It exists before there is a connection. What the server is to keep it
// signs, and whose answers to that count it finds out.
type serverLink struct {
	self    fabric.Identity
	trust   *trust
	dialled chan struct{} // closed by set

	mu       sync.Mutex
	conn     *fabric.Conn
	subject  string
	up       bool
	serving  bool
	watchdog answerWatchdog
}

const (
	// watchdogTimeout is how long reports go without an answer over a link that is up before another address is tried:
	// three heartbeats. A proxy that has lost its own way to the servers looks like that.
	watchdogTimeout = 3 * heartbeat
	// maxWatchdogTimeout is how long at most, once that has led nowhere several times.
	maxWatchdogTimeout = 8 * watchdogTimeout
)

// answerWatchdog counts how long there has been no answer.
type answerWatchdog struct {
	since    time.Time     // when the first report without one was sent; zero: the last one had one
	patience time.Duration // 0 is watchdogTimeout
}

// note takes in what became of a report that was sent at a time, and returns whether to try another address.
func (w *answerWatchdog) note(err error, sent, now time.Time) bool {
	if w.since.IsZero() {
		w.since = sent
	}
	switch {
	case err == nil:
		*w = answerWatchdog{}
	case errors.Is(err, fabric.ErrNotConnected): // other addresses are being tried
		w.since = time.Time{}
	case now.Sub(w.since) >= max(w.patience, watchdogTimeout):
		*w = answerWatchdog{patience: min(2*max(w.patience, watchdogTimeout), maxWatchdogTimeout)}
		return true
	}
	return false
}

func newServerLink(self fabric.Identity, t *trust) *serverLink {
	return &serverLink{self: self, trust: t, dialled: make(chan struct{})}
}

// set is called again when the link is made anew elsewhere.
func (l *serverLink) set(conn *fabric.Conn, subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.conn == nil
	l.conn, l.subject = conn, subject
	if first {
		close(l.dialled)
	}
}

func (l *serverLink) setUp(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = up
}

// setServing notes that orders are being listened for.
func (l *serverLink) setServing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = true
}

// takesOrders reports whether an order that is sent now arrives.
func (l *serverLink) takesOrders() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serving && l.up
}

// Report implements report.Link. It waits for the first attempt at a connection. When reports have not been answered by
// the server for some time, the next address is tried.
func (l *serverLink) Report(ctx context.Context, data []byte) ([]byte, error) {
	select {
	case <-l.dialled:
	case <-ctx.Done():
		return nil, fabric.ErrNotConnected
	}
	l.mu.Lock()
	conn, subject := l.conn, l.subject
	l.mu.Unlock()
	sent := time.Now()
	reply, err := l.exchange(ctx, conn, subject, data)
	l.mu.Lock()
	elsewhere := l.watchdog.note(err, sent, time.Now())
	l.mu.Unlock()
	if elsewhere {
		conn.Elsewhere()
	}
	return reply, err
}

// longestUnsigned is the longest answer to a heartbeat that is read, in bytes: it may bring what to trust.
const longestUnsigned = 256 << 10

// exchange sends a report and returns the server's answer. That to a heartbeat is nobody's in particular: nothing hangs
// on it.
func (l *serverLink) exchange(ctx context.Context, conn *fabric.Conn, subject string, data []byte) ([]byte, error) {
	if !wire.HasContent(data) {
		reply, err := conn.Request(ctx, subject, data)
		if len(reply) > longestUnsigned {
			return nil, fmt.Errorf("unsigned answer of %d bytes refused: expected at most %d", len(reply),
				longestUnsigned)
		}
		return reply, err
	}
	signed, err := wire.SealReport(data, l.trust.current().Fleet, l.self.Key)
	if err != nil {
		return nil, err
	}
	reply, err := conn.Request(ctx, subject, signed)
	if err != nil {
		return nil, err
	}
	return l.trust.answer(reply, data)
}
