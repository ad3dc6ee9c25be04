package server

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"drover/internal/frame"
	"drover/internal/server/engine"
	"drover/internal/wire"
)

// logTime is how long an agent may take to answer a question about a log. It waits for text for less.
const logTime = 10 * time.Second

// agentLogs asks agents about logs. It stores nothing, and holds no more than one answer for each call.
type agentLogs struct {
	link *agentLink
	now  func() time.Time
}

// withhold sends words about relaunches to an agent, and returns when the agent has taken them.
func (l agentLogs) withhold(ctx context.Context, agent string, words []wire.Withheld) error {
	issued := l.now()
	manifest, err := wire.Manifest{Issued: issued, Expires: issued.Add(logTime), Withhold: words}.Encode()
	if err != nil {
		return err
	}
	answer, err := l.link.Send(ctx, agent, manifest)
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
	answer, err := l.ask(ctx, agent, wire.Question{Log: &q})
	if err != nil {
		return wire.LogAnswer{}, err
	}
	return wire.ReadLogAnswer(answer, q.Limit)
}

// Live implements apiv1.Logs.
func (l agentLogs) Live(ctx context.Context, agent string, q wire.LiveQuestion) (wire.LiveAnswer, error) {
	answer, err := l.ask(ctx, agent, wire.Question{Live: &q})
	if err != nil {
		return wire.LiveAnswer{}, err
	}
	return wire.ReadLiveAnswer(answer, q)
}

// Usage implements apiv1.Logs.
func (l agentLogs) Usage(ctx context.Context, agent string, q wire.UsageQuestion) (wire.UsageAnswer, error) {
	answer, err := l.ask(ctx, agent, wire.Question{Usage: &q})
	if err != nil {
		return wire.UsageAnswer{}, err
	}
	return wire.ReadUsageAnswer(answer, q)
}

// ask sends a question to its agent, and returns the verified answer.
func (l agentLogs) ask(ctx context.Context, agent string, q wire.Question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	q.Version = wire.Version
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	answer, err := l.link.exchange(ctx, agent, exchange{wire.LogSubject, frame.Question, frame.Reply}, body)
	if errors.Is(err, engine.ErrNobody) || errors.Is(err, context.DeadlineExceeded) {
		return nil, errAway
	}
	return answer, err
}
