package server

import (
	"context"
	"errors"
	"sync"

	"drover/internal/fabric"
	"drover/internal/server/engine"
	"drover/internal/wire"
)

// link is the engine's way to the agents. It exists before there is a connection.
type link struct {
	mu   sync.Mutex
	conn *fabric.Conn
}

func (l *link) set(conn *fabric.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
}

func (l *link) get() *fabric.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

func (l *link) up() bool {
	conn := l.get()
	return conn != nil && conn.Connected()
}

// Send implements engine.Link.
func (l *link) Send(ctx context.Context, agent string, envelope []byte) ([]byte, error) {
	conn := l.get()
	if conn == nil {
		return nil, fabric.ErrNotConnected
	}
	reply, err := conn.Request(ctx, wire.OrderSubject(agent), envelope)
	if errors.Is(err, fabric.ErrNobody) {
		return nil, engine.ErrNobody
	}
	return reply, err
}
