// Package protect carries out breakers: it gives package breaker the failures that agents report, stores what package
// breaker decides, and asks the agents to withhold relaunches. Everything is in the store, so another server continues
// after a death. What it asks the agents expires by itself.
package protect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"drover/internal/idle"
	"drover/internal/process"
	"drover/internal/server/breaker"
	"drover/internal/server/fleet"
	"drover/internal/server/store"
	"drover/internal/wire"
)

const (
	// look is the least interval between two looks at the events and the breakers, and lookIdle the longest one, in
	// case a word about them was lost.
	look     = time.Second
	lookIdle = 10 * time.Second
	// again is the interval at which the agents hear of an open breaker, and lasts how long they withhold after that.
	again = 20 * time.Second
	lasts = time.Minute
	// hostsKept is how long the hosts of a process are remembered.
	hostsKept = 20 * time.Second
	// sendTime bounds one message to an agent, and senders is how many are under way.
	sendTime = 5 * time.Second
	senders  = 32
	// page is how many events or processes one read returns.
	page = 1000
)

// Store is what a guard needs of the database.
type Store interface {
	store.Breakers
	EventsAfter(ctx context.Context, after int64, f store.EventFilter,
		limit int) (events []store.StoredEvent, next int64, err error)
	EventsBefore(ctx context.Context, before store.EventMark, f store.EventFilter,
		limit int) (events []store.StoredEvent, next store.EventMark, err error)
	LastCursor(ctx context.Context) (int64, error)
	PutEvents(ctx context.Context, agent string, received time.Time, events []store.NewEvent) (int, error)
	ListObserved(ctx context.Context, f store.ObservedFilter, after store.ObservedKey,
		limit int) (rows []store.Observed, more bool, err error)
}

// Presence knows which agents are connected.
type Presence interface {
	Presence(key string, now time.Time) fleet.Presence
}

// Config holds the parts of a guard. All are required except Rule and Woken.
type Config struct {
	Store    Store
	Presence Presence
	// Tell sends words about relaunches to an agent.
	Tell func(ctx context.Context, agent string, words []wire.Withheld) error
	// Happened is called when there are new events.
	Happened func()
	// Woken receives when there are new events, or a person has closed a breaker. nil never does.
	Woken <-chan struct{}
	// Rule is breaker.Default by default.
	Rule breaker.Rule
	// Now is the common time of all servers of the database.
	Now func() time.Time
	Log *slog.Logger
}

// Guard opens and closes the breakers of a database. Only one guard should run at a time; two do no harm.
type Guard struct {
	Config
	cursor   int64
	failures map[process.ID][]breaker.Failure
	hosts    map[process.ID]hosts
	// opened are the breakers whose opening is told as an event, and sent the times of the last words to the agents.
	opened map[process.ID]time.Time
	sent   map[process.ID]time.Time
	// looked is the time of the last Step. busy tells that the next one must not wait for a word: there are failures to
	// judge, or breakers to carry on.
	looked time.Time
	busy   bool
}

// hosts are the agents that keep a process running, with the revisions of its spec, as of a time.
type hosts struct {
	at        time.Time
	revisions map[string]int64
}

// New returns a guard.
func New(c Config) *Guard {
	if c.Rule == (breaker.Rule{}) {
		c.Rule = breaker.Default()
	}
	return &Guard{Config: c}
}

// Run guards until ctx ends. It may be called again after it has returned.
func (g *Guard) Run(ctx context.Context) error {
	seeded := false
	for ctx.Err() == nil {
		var err error
		if !seeded {
			err = g.seed(ctx)
			seeded = err == nil
		}
		if err == nil {
			err = g.Step(ctx)
		}
		if err != nil && ctx.Err() == nil {
			g.Log.ErrorContext(ctx, "cannot guard against failures of the fleet", "error", err)
		}
		if idle.Sleep(ctx, look) && err == nil && !g.busy {
			idle.Wait(ctx, lookIdle-look, g.Woken)
		}
	}
	return nil
}

// seed reads the failures of the present window.
func (g *Guard) seed(ctx context.Context) (err error) {
	g.failures, g.hosts = map[process.ID][]breaker.Failure{}, map[process.ID]hosts{}
	g.opened, g.sent = map[process.ID]time.Time{}, map[process.ID]time.Time{}
	if g.cursor, err = g.Store.LastCursor(ctx); err != nil {
		return err
	}
	f := store.EventFilter{Kinds: breaker.FailureKinds(), From: g.Now().Add(-g.Rule.Window)}
	for mark := (store.EventMark{}); ; {
		events, next, err := g.Store.EventsBefore(ctx, mark, f, page)
		if err != nil {
			return err
		}
		for i := range events {
			if events[i].Cursor <= g.cursor { // Step reads the others
				g.note(&events[i])
			}
		}
		if next == (store.EventMark{}) {
			return nil
		}
		mark = next
	}
}

func (g *Guard) note(e *store.StoredEvent) {
	if f, ok := breaker.Of(e.Agent, &e.Event); ok {
		id := of(e.Event.Process)
		g.failures[id] = append(g.failures[id], f)
	}
}

// of returns the process that a copy is one of.
func of(id process.ID) process.ID {
	id.Name, _ = process.CutCopy(id.Name)
	return id
}

// Step looks once at events and breakers, and does what is to do.
func (g *Guard) Step(ctx context.Context) error {
	if err := g.read(ctx); err != nil {
		return err
	}
	now := g.Now()
	list, err := g.Store.ListBreakers(ctx)
	if err != nil {
		return err
	}
	known := map[process.ID]store.Breaker{}
	for _, b := range list {
		known[b.Process] = b
	}
	for id, failures := range g.failures {
		b, met := known[id]
		if met && b.Closed.IsZero() {
			continue
		}
		opened, err := g.judge(ctx, id, failures, b.Closed, now)
		if err != nil {
			return err
		}
		if opened != nil {
			known[id] = *opened
		}
	}
	g.busy = len(g.failures) > 0
	for _, b := range known {
		g.busy = g.busy || !b.Told
		if err := g.carryOn(ctx, b, now); err != nil {
			return err
		}
	}
	g.looked = now
	return nil
}

// read takes the new failures, and forgets the old ones.
func (g *Guard) read(ctx context.Context) error {
	f := store.EventFilter{Kinds: breaker.FailureKinds()}
	for {
		events, next, err := g.Store.EventsAfter(ctx, g.cursor, f, page)
		if err != nil {
			return err
		}
		for i := range events {
			g.note(&events[i])
		}
		if next == g.cursor {
			break
		}
		g.cursor = next
	}
	oldest := g.Now().Add(-g.Rule.Window)
	for id, list := range g.failures {
		var kept []breaker.Failure
		for _, f := range list {
			if f.At.After(oldest) {
				kept = append(kept, f)
			}
		}
		if g.failures[id] = kept; len(kept) == 0 {
			delete(g.failures, id)
		}
	}
	return nil
}

// judge opens the breaker of a process if its failures ask for that.
func (g *Guard) judge(ctx context.Context, id process.ID, failures []breaker.Failure, closed, now time.Time,
) (*store.Breaker, error) {
	if !g.Rule.Suspect(failures, closed, now) {
		return nil, nil //nolint:nilnil // the breaker stays closed
	}
	found, err := g.hostsOf(ctx, id, now)
	if err != nil {
		return nil, err
	}
	trip, open := g.Rule.Judge(failures, found, closed, now)
	if !open {
		return nil, nil //nolint:nilnil // the breaker stays closed
	}
	b := store.Breaker{
		Process: id, Revision: trip.Revision, Cause: trip.Cause, Failed: trip.Failed, Hosts: trip.Hosts,
		Agent:  trip.Last,
		Opened: now, Until: now.Add(g.Rule.Hold),
	}
	if err := g.Store.OpenBreaker(ctx, b); err != nil && !errors.Is(err, store.ErrExists) {
		return nil, err
	}
	g.Log.WarnContext(ctx, "too many hosts fail: relaunches are withheld on all hosts", "process", id, "trip", trip)
	return &b, nil
}

// hostsOf returns the agents that keep a process running.
func (g *Guard) hostsOf(ctx context.Context, id process.ID, now time.Time) (map[string]int64, error) {
	if h, known := g.hosts[id]; known && now.Sub(h.at) < hostsKept {
		return h.revisions, nil
	}
	found := map[string]int64{}
	f := store.ObservedFilter{Process: id, Copies: true, Spec: true}
	for after := (store.ObservedKey{}); ; {
		rows, more, err := g.Store.ListObserved(ctx, f, after, page)
		if err != nil {
			return nil, err
		}
		for _, o := range rows {
			after = store.ObservedKey{Agent: o.Agent, Process: o.Process}
			if o.Spec != nil && o.Status.Hosted && o.Spec.Policy.Kind == process.Resident {
				found[o.Agent] = o.Spec.Revision
			}
		}
		if !more || len(rows) == 0 {
			g.hosts[id] = hosts{now, found}
			return found, nil
		}
	}
}

// carryOn tells of a breaker what nobody knows yet, and closes it when its time is over.
func (g *Guard) carryOn(ctx context.Context, b store.Breaker, now time.Time) error {
	if b.Closed.IsZero() {
		over, err := g.isOver(ctx, &b, now)
		if err != nil {
			return err
		}
		if over {
			if b, err = g.Store.CloseBreaker(ctx, b.Process, now, ""); err != nil {
				return err
			}
		}
	}
	if b.Told {
		delete(g.opened, b.Process)
		delete(g.sent, b.Process)
		return nil
	}
	if !g.opened[b.Process].Equal(b.Opened) { // perhaps told by another server: then the store drops it
		if err := g.tell(ctx, &b, process.EventBreakerOpened, b.Opened, openedText(&b)); err != nil {
			return err
		}
		g.opened[b.Process] = b.Opened
		delete(g.sent, b.Process)
	}
	if b.Closed.IsZero() {
		since := g.looked // an agent that has returned since then knows nothing
		if now.Sub(g.sent[b.Process]) >= again {
			since, g.sent[b.Process] = time.Time{}, now
		}
		return g.send(ctx, &b, now, since, wire.Withheld{
			Process: b.Process, Revision: b.Revision, Seconds: int(lasts / time.Second), Text: openedText(&b),
		})
	}
	if err := g.tell(ctx, &b, process.EventBreakerClosed, b.Closed, closedText(&b)); err != nil {
		return err
	}
	g.Log.InfoContext(ctx, "relaunches are withheld no longer", "process", b.Process, "why", closedText(&b))
	if err := g.send(ctx, &b, now, time.Time{}, wire.Withheld{Process: b.Process}); err != nil {
		return err
	}
	return g.Store.BreakerTold(ctx, b.Process, b.Opened)
}

// isOver reports whether an open breaker closes now: its time is over, or no host has its revision any more.
func (g *Guard) isOver(ctx context.Context, b *store.Breaker, now time.Time) (bool, error) {
	if !now.Before(b.Until) {
		return true, nil
	}
	if b.Revision == 0 {
		return false, nil
	}
	found, err := g.hostsOf(ctx, b.Process, now)
	if err != nil {
		return false, err
	}
	for _, revision := range found {
		if revision == b.Revision {
			return false, nil
		}
	}
	return true, nil
}

// openedText says why relaunches are withheld.
func openedText(b *store.Breaker) string {
	trip := breaker.Trip{Revision: b.Revision, Cause: b.Cause, Failed: b.Failed, Hosts: b.Hosts}
	return fmt.Sprintf("%s: drover withholds its relaunches on all hosts until %s", trip,
		b.Until.UTC().Format(time.RFC3339))
}

// closedText says why relaunches are withheld no longer.
func closedText(b *store.Breaker) string {
	switch {
	case b.ClosedBy != "":
		return "the breaker was reset by " + b.ClosedBy
	case b.Closed.Before(b.Until):
		return fmt.Sprintf("no host has revision %d any more", b.Revision)
	}
	return "the breaker was open for " + b.Until.Sub(b.Opened).String()
}

// tell stores an event about a breaker, of the host that failed last. Its stream is the breaker's own, so the store
// keeps each event once, whatever dies in between.
func (g *Guard) tell(ctx context.Context, b *store.Breaker, kind process.EventKind, at time.Time, text string) error {
	e := process.Event{
		Stream: "breaker-" + strconv.FormatInt(b.Opened.UnixNano(), 36), Seq: 1, At: at.UnixMilli(), Process: b.Process,
		Kind: kind, Actor: process.Actor{Kind: process.ActorPolicy}, Cause: process.Cause{Text: text},
	}
	if kind == process.EventBreakerOpened {
		e.Cause.ID = process.CauseBreakerOpen
	} else {
		e.Seq = 2
	}
	if b.ClosedBy != "" && e.Seq == 2 {
		e.Actor = process.Actor{Kind: process.ActorCaller, User: b.ClosedBy}
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("cannot encode the event of a breaker: %w", err)
	}
	n, err := g.Store.PutEvents(ctx, b.Agent, g.Now(), []store.NewEvent{{Event: e, Body: string(body)}})
	if n > 0 {
		g.Happened()
	}
	return err
}

// send sends a word to the connected agents of a process that have introduced themselves since a time. It skips an
// agent that does not answer: the next word follows, or the last one expires.
func (g *Guard) send(ctx context.Context, b *store.Breaker, now, since time.Time, word wire.Withheld,
) error {
	found, err := g.hostsOf(ctx, b.Process, now)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, senders)
	for agent := range found {
		if p := g.Presence.Presence(agent, now); !p.Joined || p.Away || !since.IsZero() && !p.Linked.After(since) {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, sendTime)
			defer cancel()
			if err := g.Tell(ctx, agent, []wire.Withheld{word}); err != nil && ctx.Err() == nil {
				g.Log.DebugContext(ctx, "agent did not take the word about relaunches", "agent", agent, "error", err)
			}
		})
	}
	group.Wait()
	return nil
}
