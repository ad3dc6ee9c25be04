package agentlink

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

// answerTime is how long an agent may take to answer a question. It waits for text of a log for less.
const answerTime = 10 * time.Second

// Questions asks agents about logs, states and usage, and tells them which relaunches to withhold. It stores nothing,
// and holds no more than one answer for each call. It implements processes.Logs.
type Questions struct {
	link *Link
	// searches and follows bound the questions with an expression, for each agent. Further questions wait here and not
	// on the host, because here a question ends with its caller.
	searches, follows *places
}

// NewQuestions returns the questions over a link.
func NewQuestions(l *Link) *Questions {
	return &Questions{link: l, searches: newPlaces(mostSearches), follows: newPlaces(mostFollows)}
}

const (
	// mostSearches is how many questions may search on one agent at a time, and mostFollows how many may search in
	// new lines.
	mostSearches = 4
	mostFollows  = 8
)

// places bounds how many questions to each agent are open at the same time.
type places struct {
	most int
	mu   sync.Mutex
	// open has the places of each agent, and users the number of questions that have or want a place.
	open  map[string]chan struct{}
	users map[string]int
}

func newPlaces(most int) *places {
	return &places{most: most, open: map[string]chan struct{}{}, users: map[string]int{}}
}

// enter waits for a place of an agent, until ctx ends.
func (p *places) enter(ctx context.Context, agent string) (leave func(), err error) {
	p.mu.Lock()
	place := p.open[agent]
	if place == nil {
		place = make(chan struct{}, p.most)
		p.open[agent] = place
	}
	p.users[agent]++
	p.mu.Unlock()
	forget := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.users[agent]--; p.users[agent] == 0 {
			delete(p.users, agent)
			delete(p.open, agent)
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

// Withhold sends words about relaunches to an agent, and returns when the agent has taken them.
func (q *Questions) Withhold(ctx context.Context, agent string, words []wire.Withheld) error {
	issued := q.link.cfg.Now()
	manifest, err := wire.Manifest{Issued: issued, Expires: issued.Add(answerTime), Withhold: words}.Encode()
	if err != nil {
		return err
	}
	answer, err := q.link.Send(ctx, agent, manifest)
	if err != nil {
		return err
	}
	receipt, err := wire.ReadReceipt(answer)
	if err == nil && receipt.Error != "" {
		err = errors.New(receipt.Error)
	}
	return err
}

// errAway says that the agent is not connected, and errSlow that it has not answered in time.
var (
	errAway = errors.New("the host is not connected")
	errSlow = fmt.Errorf("the host has not answered within %v", answerTime)
)

// Ask implements processes.Logs.
func (q *Questions) Ask(ctx context.Context, agent string, question wire.LogQuestion) (wire.LogAnswer, error) {
	if question.Grep != "" {
		of := q.searches
		if question.Follow {
			of = q.follows
		}
		leave, err := of.enter(ctx, agent)
		if err != nil {
			return wire.LogAnswer{}, err
		}
		defer leave()
	}
	answer, err := q.ask(ctx, agent, wire.Question{Log: &question})
	if err != nil {
		return wire.LogAnswer{}, err
	}
	return wire.ReadLogAnswer(answer, question.Limit)
}

// Live implements processes.Logs.
func (q *Questions) Live(ctx context.Context, agent string, question wire.LiveQuestion) (wire.LiveAnswer, error) {
	answer, err := q.ask(ctx, agent, wire.Question{Live: &question})
	if err != nil {
		return wire.LiveAnswer{}, err
	}
	return wire.ReadLiveAnswer(answer, question)
}

// Usage implements processes.Logs.
func (q *Questions) Usage(ctx context.Context, agent string, question wire.UsageQuestion) (wire.UsageAnswer, error) {
	answer, err := q.ask(ctx, agent, wire.Question{Usage: &question})
	if err != nil {
		return wire.UsageAnswer{}, err
	}
	return wire.ReadUsageAnswer(answer, question)
}

// ask sends a question to its agent, and returns the verified answer.
func (q *Questions) ask(ctx context.Context, agent string, question wire.Question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	question.Version = wire.Version
	body, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	answer, err := q.link.exchange(ctx, agent, exchange{wire.LogSubject, frame.Question, frame.Reply}, body)
	switch {
	case errors.Is(err, engine.ErrNobody):
		return nil, errAway
	case errors.Is(err, context.DeadlineExceeded):
		return nil, errSlow
	}
	return answer, err
}
