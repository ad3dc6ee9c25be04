package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
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
	// searches and follows bound the questions with an expression, of agents apart. Others wait here, and not on the
	// host: a question ends here with its caller.
	searches, follows *places
}

const (
	// mostSearches is how many questions search on one agent at a time, mostFollows how many search in what comes.
	mostSearches = 4
	mostFollows  = 8
)

// places bounds what happens at the same time, of each agent apart.
type places struct {
	most int
	mu   sync.Mutex
	// taken has the places of an agent, users how many have or want one.
	taken map[string]chan struct{}
	users map[string]int
}

func newPlaces(most int) *places {
	return &places{most: most, taken: map[string]chan struct{}{}, users: map[string]int{}}
}

// enter waits for a place of an agent, until ctx ends.
func (p *places) enter(ctx context.Context, agent string) (leave func(), err error) {
	p.mu.Lock()
	place := p.taken[agent]
	if place == nil {
		place = make(chan struct{}, p.most)
		p.taken[agent] = place
	}
	p.users[agent]++
	p.mu.Unlock()
	forget := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users[agent]--; p.users[agent] == 0 {
			delete(p.users, agent)
			delete(p.taken, agent)
		}
	}
	select {
	case place <- struct{}{}:
		return func() { <-place; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
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

// errAway says that the agent of a log is not connected, errSlow that it has not answered in time.
var (
	errAway = errors.New("the host is not connected")
	errSlow = fmt.Errorf("the host has not answered within %v", logTime)
)

// Ask implements processes.Logs.
func (l agentLogs) Ask(ctx context.Context, agent string, q wire.LogQuestion) (wire.LogAnswer, error) {
	if q.Grep != "" {
		of := l.searches
		if q.Follow {
			of = l.follows
		}
		leave, err := of.enter(ctx, agent)
		if err != nil {
			return wire.LogAnswer{}, err
		}
		defer leave()
	}
	answer, err := l.ask(ctx, agent, wire.Question{Log: &q})
	if err != nil {
		return wire.LogAnswer{}, err
	}
	return wire.ReadLogAnswer(answer, q.Limit)
}

// Live implements processes.Logs.
func (l agentLogs) Live(ctx context.Context, agent string, q wire.LiveQuestion) (wire.LiveAnswer, error) {
	answer, err := l.ask(ctx, agent, wire.Question{Live: &q})
	if err != nil {
		return wire.LiveAnswer{}, err
	}
	return wire.ReadLiveAnswer(answer, q)
}

// Usage implements processes.Logs.
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
	switch {
	case errors.Is(err, engine.ErrNobody):
		return nil, errAway
	case errors.Is(err, context.DeadlineExceeded):
		return nil, errSlow
	}
	return answer, err
}
