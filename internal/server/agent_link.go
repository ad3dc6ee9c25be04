package server

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
	"drover/internal/server/pulse"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// agentLink is the server's connection to the agents. It seals what it sends, and opens the answers. It exists before
// the connection to the fabric.
type agentLink struct {
	// area returns the area in which an agent has joined, pairs has the keys, and now is the clock of the fleet. They
	// are set before the first Send.
	area  func(ctx context.Context, agent string) (area int, known bool, err error)
	pairs *pairs.Pairs
	now   func() time.Time

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
func (l *agentLink) Send(ctx context.Context, agent string, manifest []byte) (receipt []byte, err error) {
	return l.exchange(ctx, agent, exchange{wire.OrderSubject, frame.Orders, frame.Receipt}, manifest)
}

// Ping implements engine.Link. Whoever answers without the agent's key is nobody.
func (l *agentLink) Ping(ctx context.Context, agent string) error {
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
func (l *agentLink) exchange(ctx context.Context, agent string, e exchange, body []byte) (answer []byte, err error) {
	pair, err := l.pairs.Present(ctx, agent)
	if errors.Is(err, pairs.ErrUnknownMember) { // it was just removed
		return nil, engine.ErrNobody
	}
	if err != nil {
		return nil, err
	}
	data, nonce, err := pair.Seal(e.asks, l.now(), frame.Nonce{}, body)
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

// compareEvery is how often the server looks whether subscriptions at its broker have changed. A comparison takes half
// a millisecond for 1,000 agents, and is made only after a change.
const compareEvery = 250 * time.Millisecond

// watchLinks notices agents that have lost their links, until ctx ends: each agent listens for pings as long as it is
// connected to a broker of the fleet, or to a proxy. External brokers tell nothing, so there the silence of agents
// decides alone.
func (s *Server) watchLinks(ctx context.Context) error {
	if s.embedded == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for before := uint64(0); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		after, err := s.compareLinks(before)
		if err != nil {
			s.cfg.Log.ErrorContext(ctx, "cannot find out which agents are connected", "error", err)
		}
		before = after
	}
}

// nobody is the key of no agent.
const nobody = "nobody"

// compareLinks compares the links of agents with the subscriptions at the broker. before is its result of the last
// time.
func (s *Server) compareLinks(before uint64) (after uint64, err error) {
	if after, err = s.embedded.Changes(); err != nil { // before the look: what changes meanwhile counts the next time
		return before, err
	}
	listens, err := s.embedded.Listeners()
	if err != nil {
		return before, err
	}
	if s.directory.Compare(after != before, s.clock.Now(), func(a store.Agent) bool {
		return listens(wire.PingSubject(a.Cloud, a.Key), wire.PingSubject(a.Cloud, nobody))
	}) > 0 {
		s.pulse.Changed(pulse.Hosts, pulse.Processes)
	}
	return after, nil
}
