package agent

import (
	"context"
	"sync"

	"drover/internal/fabric"
)

// link is the reporter's way to the server. It exists before there is a connection.
type link struct {
	dialled chan struct{} // closed by set

	mu      sync.Mutex
	conn    *fabric.Conn
	subject string
	up      bool
	serving bool
}

func newLink() *link { return &link{dialled: make(chan struct{})} }

// set is called once.
func (l *link) set(conn *fabric.Conn, subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.subject = conn, subject
	close(l.dialled)
}

func (l *link) setUp(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = up
}

// serves notes that orders are being listened for.
func (l *link) serves() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.serving = true
}

// takesOrders reports whether an order that is sent now arrives.
func (l *link) takesOrders() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serving && l.up
}

// Report implements report.Link. It waits for the first attempt at a connection.
func (l *link) Report(ctx context.Context, data []byte) ([]byte, error) {
	select {
	case <-l.dialled:
	case <-ctx.Done():
		return nil, fabric.ErrNotConnected
	}
	l.mu.Lock()
	conn, subject := l.conn, l.subject
	l.mu.Unlock()
	return conn.Request(ctx, subject, data)
}
