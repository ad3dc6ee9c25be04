package server

import (
	"context"
	"errors"
	"sync"

	"drover/internal/fabric"
	"drover/internal/server/engine"
	"drover/internal/wire"
)

// agentLink is the engine's connection to the agents. It exists before the connection to the fabric.
type agentLink struct {
	// area returns the area in which an agent has joined. It is set before the first Send.
	area func(ctx context.Context, agent string) (area int, known bool, err error)

	mu   sync.Mutex
	conn *fabric.Conn
}

func (l *agentLink) set(conn *fabric.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
}

func (l *agentLink) get() *fabric.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

func (l *agentLink) up() bool {
	conn := l.get()
	return conn != nil && conn.Connected()
}

// Send implements engine.Link.
func (l *agentLink) Send(ctx context.Context, agent string, envelope []byte) ([]byte, error) {
	reply, err := l.request(ctx, agent, wire.OrderSubject, envelope)
	if err != nil {
		return nil, err
	}
	return wire.OpenReceipt(reply, envelope, agent)
}

// Ping implements engine.Link.
func (l *agentLink) Ping(ctx context.Context, agent string) error {
	_, err := l.request(ctx, agent, wire.PingSubject, nil)
	return err
}

func (l *agentLink) request(ctx context.Context, agent string, subject func(area int, agent string) string,
	data []byte,
) ([]byte, error) {
	conn := l.get()
	if conn == nil {
		return nil, fabric.ErrNotConnected
	}
	area, known, err := l.area(ctx, agent)
	if err != nil {
		return nil, err
	}
	if !known { // it was just removed
		return nil, engine.ErrNobody
	}
	reply, err := conn.Request(ctx, subject(area, agent), data)
	if errors.Is(err, fabric.ErrNobody) {
		return nil, engine.ErrNobody
	}
	return reply, err
}
