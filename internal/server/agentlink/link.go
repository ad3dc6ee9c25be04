// Package agentlink is a server's connection to the agents: it seals what the server sends, opens the answers, and
// watches which agents are connected. What the server sends is the matter of its callers.
package agentlink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/server/engine"
	"drover/internal/server/pairs"
	"drover/internal/wire"
)

// Config is what a Link needs.
type Config struct {
	// Area returns the area in which an agent has joined.
	Area func(ctx context.Context, agent string) (area int, known bool, err error)
	// Pairs has the keys of the agents.
	Pairs *pairs.Pairs
	// Now is the clock of the fleet.
	Now func() time.Time
}

// Link is the server's connection to the agents. It exists before the connection to the fabric. It is safe for
// concurrent use.
type Link struct {
	cfg Config

	mu   sync.Mutex
	conn *fabric.Conn
}

// New returns a link without a connection.
func New(cfg Config) *Link { return &Link{cfg: cfg} }

// Connect gives the link its connection to the fabric.
func (l *Link) Connect(conn *fabric.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
}

func (l *Link) connection() *fabric.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// Connected reports whether the link has a connection that works.
func (l *Link) Connected() bool {
	conn := l.connection()
	return conn != nil && conn.Connected()
}

// Send implements engine.Link.
func (l *Link) Send(ctx context.Context, agent string, manifest []byte) (receipt []byte, err error) {
	return l.exchange(ctx, agent, exchange{wire.OrderSubject, frame.Orders, frame.Receipt}, manifest)
}

// Ping implements engine.Link. An answer without the agent's key counts as no answer.
func (l *Link) Ping(ctx context.Context, agent string) error {
	_, err := l.exchange(ctx, agent, exchange{wire.PingSubject, frame.Ping, frame.Here}, nil)
	if errors.Is(err, errUnproven) {
		return engine.ErrNobody
	}
	return err
}

// exchange is a question to an agent: its subject, its kind, and the kind of its answer.
type exchange struct {
	subject       func(area int, agent string) string
	asks, answers frame.Kind
}

// errUnproven says that something has answered that did not prove to be the agent.
var errUnproven = errors.New("the answer of the agent does not open")

// exchange sends a body to an agent, and returns the body of its answer.
func (l *Link) exchange(ctx context.Context, agent string, e exchange, body []byte) (answer []byte, err error) {
	pair, err := l.cfg.Pairs.Present(ctx, agent)
	if errors.Is(err, pairs.ErrUnknownMember) { // it was just removed
		return nil, engine.ErrNobody
	}
	if err != nil {
		return nil, err
	}
	data, nonce, err := pair.Seal(e.asks, l.cfg.Now(), frame.Nonce{}, body)
	if err != nil {
		return nil, err
	}
	reply, err := l.request(ctx, agent, e.subject, data)
	if err != nil {
		return nil, err
	}
	if _, answer, err = pair.Open(e.answers, reply, nonce); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnproven, err)
	}
	return answer, nil
}

func (l *Link) request(ctx context.Context, agent string, subject func(area int, agent string) string,
	data []byte,
) ([]byte, error) {
	conn := l.connection()
	if conn == nil {
		return nil, fabric.ErrNotConnected
	}
	area, known, err := l.cfg.Area(ctx, agent)
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
