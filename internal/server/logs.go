package server

import (
	"context"
	"errors"
	"time"

	"drover/internal/server/engine"
	"drover/internal/wire"
)

// logTime is how long an agent may take to answer a question about a log. It waits for text for less.
const logTime = 10 * time.Second

// agentLogs asks agents about logs. It stores nothing, and holds no more than one answer for each call.
type agentLogs struct {
	link *agentLink
	// seal signs a question.
	seal func(m wire.Manifest) ([]byte, error)
	now  func() time.Time
}

// withhold sends words about relaunches to an agent, and returns when the agent has taken them.
func (l agentLogs) withhold(ctx context.Context, agent string, words []wire.Withheld) error {
	issued := l.now()
	envelope, err := l.seal(wire.Manifest{Agent: agent, Issued: issued, Expires: issued.Add(logTime), Withhold: words})
	if err != nil {
		return err
	}
	reply, err := l.link.Send(ctx, agent, envelope)
	if err != nil {
		return err
	}
	answer, err := wire.OpenReceipt(reply, envelope, agent)
	if err != nil {
		return err
	}
	receipt, err := wire.ReadReceipt(answer)
	if err == nil && receipt.Error != "" {
		err = errors.New(receipt.Error)
	}
	return err
}

// errAway says that the agent of a log is not connected, or does not answer.
var errAway = errors.New("the host is not connected")

// Ask implements apiv1.Logs.
func (l agentLogs) Ask(ctx context.Context, agent string, q wire.LogQuestion) (wire.LogAnswer, error) {
	answer, err := l.ask(ctx, wire.Manifest{Agent: agent, Log: &q})
	if err != nil {
		return wire.LogAnswer{}, err
	}
	return wire.ReadLogAnswer(answer, q.Limit)
}

// Live implements apiv1.Logs.
func (l agentLogs) Live(ctx context.Context, agent string, q wire.LiveQuestion) (wire.LiveAnswer, error) {
	answer, err := l.ask(ctx, wire.Manifest{Agent: agent, Live: &q})
	if err != nil {
		return wire.LiveAnswer{}, err
	}
	return wire.ReadLiveAnswer(answer, q)
}

// ask sends a question to its agent, and returns the verified answer.
func (l agentLogs) ask(ctx context.Context, m wire.Manifest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	m.Issued = l.now()
	m.Expires = m.Issued.Add(logTime)
	envelope, err := l.seal(m)
	if err != nil {
		return nil, err
	}
	reply, err := l.link.request(ctx, m.Agent, wire.LogSubject, envelope)
	switch {
	case errors.Is(err, engine.ErrNobody), errors.Is(err, context.DeadlineExceeded):
		return nil, errAway
	case err != nil:
		return nil, err
	}
	return wire.OpenReceipt(reply, envelope, m.Agent)
}
