// Package breakerdriver carries out breakers: it gives package breaker the failures that agents report, stores the
// decisions of package breaker, and asks the agents to withhold relaunches. Everything is in the store, so another
// server continues after a death. What it asks the agents expires by itself.
package breakerdriver

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
	// hostsKept is how long the driver remembers the hosts of a process. freshKept is that time if other hosts have
	// got the process since.
	hostsKept = 20 * time.Second
	freshKept = 3 * time.Second
	// sendTime bounds one message to an agent, and senders is how many are under way.
	sendTime = 5 * time.Second
	senders  = 32
	// page is the number of events or processes that one read returns.
	page = 1000
)

// Store is what a driver needs of the database.
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

// Config holds the parts of a driver. All are required except Rule and Woken.
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

// Driver opens and closes the breakers of a database. Only one driver should run at a time; two do no harm.
type Driver struct {
	Config
	cursor   int64
	failures map[process.ID][]breaker.Failure
	// updated are the times at which agents got another spec of a process: earlier failures belong to the former one.
	updated map[process.ID]map[string]time.Time
	hosts   map[process.ID]hosts
	// fresh are the agents that got a process or another spec of it, and have yet to hear of its breaker.
	fresh map[process.ID]map[string]bool
	// opened are the breakers whose opening is told as an event, and sent the times of the last words to the agents.
	opened map[process.ID]time.Time
	sent   map[process.ID]time.Time
	// looked is the time of the last Step. busy tells that the next one must not wait for a word: there are failures to
	// judge, or breakers to carry on.
	looked time.Time
	busy   bool
}

// hosts are the agents that keep a process running, as of a time.
type hosts struct {
	at time.Time
	breaker.Hosts
}

// New returns a driver.
func New(c Config) *Driver {
	if c.Rule == (breaker.Rule{}) {
		c.Rule = breaker.Default()
	}
	return &Driver{Config: c}
}

// Run guards until ctx ends. It may be called again after it has returned.
func (g *Driver) Run(ctx context.Context) error {
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
func (g *Driver) seed(ctx context.Context) (err error) {
	g.failures, g.hosts = map[process.ID][]breaker.Failure{}, map[process.ID]hosts{}
	g.opened, g.sent = map[process.ID]time.Time{}, map[process.ID]time.Time{}
	g.updated, g.fresh = map[process.ID]map[string]time.Time{}, map[process.ID]map[string]bool{}
	if g.cursor, err = g.Store.LastCursor(ctx); err != nil {
		return err
	}
	f := store.EventFilter{Kinds: g.kinds(), From: g.Now().Add(-g.Rule.Window)}
	for mark := (store.EventMark{}); ; {
		events, next, err := g.Store.EventsBefore(ctx, mark, f, page)
		if err != nil {
			return err
		}
		for i := range events {
			if events[i].Cursor <= g.cursor { // Step reads the others
				g.addEvent(&events[i])
			}
		}
		if next == (store.EventMark{}) {
			return nil
		}
		mark = next
	}
}

// kinds are the kinds of events that a driver reads. A start matters only while a breaker is open.
func (g *Driver) kinds() []process.EventKind {
	kinds := append(breaker.FailureKinds(), process.EventUpdated)
	if len(g.opened) > 0 {
		kinds = append(kinds, process.EventStarted)
	}
	return kinds
}

// addEvent counts an event: as an update of a process, as a start after its breaker opened, or as a failure.
func (g *Driver) addEvent(e *store.StoredEvent) {
	id := of(e.Event.Process)
	if e.Event.Kind == process.EventUpdated || e.Event.Kind == process.EventStarted {
		if g.fresh[id] == nil {
			g.fresh[id] = map[string]bool{}
		}
		g.fresh[id][e.Agent] = true
	}
	if e.Event.Kind == process.EventUpdated {
		if g.updated[id] == nil {
			g.updated[id] = map[string]time.Time{}
		}
		if at := time.UnixMilli(e.Event.At); at.After(g.updated[id][e.Agent]) {
			g.updated[id][e.Agent] = at
		}
		return
	}
	if f, ok := breaker.Of(e.Agent, &e.Event); ok {
		g.failures[id] = append(g.failures[id], f)
	}
}

// of returns the process that a copy is one of.
func of(id process.ID) process.ID {
	id.Name, _ = process.CutCopy(id.Name)
	return id
}

// Step looks once at events and breakers, and does what is to do.
func (g *Driver) Step(ctx context.Context) error {
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
		opened, err := g.judge(ctx, id, failures, b, met && b.Closed.IsZero(), now)
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
	for id := range g.hosts {
		if b, met := known[id]; len(g.failures[id]) == 0 && (!met || b.Told) {
			delete(g.hosts, id)
		}
	}
	for id := range g.fresh {
		if b, met := known[id]; !met || b.Told {
			delete(g.fresh, id)
		}
	}
	g.looked = now
	return nil
}

// read takes the new failures, and forgets the old ones.
func (g *Driver) read(ctx context.Context) error {
	f := store.EventFilter{Kinds: g.kinds()}
	for {
		events, next, err := g.Store.EventsAfter(ctx, g.cursor, f, page)
		if err != nil {
			return err
		}
		for i := range events {
			g.addEvent(&events[i])
		}
		if next == g.cursor {
			break
		}
		g.cursor = next
	}
	g.forget(g.Now().Add(-g.Rule.Window))
	return nil
}

// forget drops the failures that are too old, and those of a spec that the host does not have any more.
func (g *Driver) forget(oldest time.Time) {
	for id, list := range g.failures {
		var kept []breaker.Failure
		for _, f := range list {
			if f.At.After(oldest) && f.At.After(g.updated[id][f.Agent]) {
				kept = append(kept, f)
			}
		}
		if g.failures[id] = kept; len(kept) == 0 {
			delete(g.failures, id)
		}
	}
	for id, agents := range g.updated {
		for agent, at := range agents {
			if !at.After(oldest) {
				delete(agents, agent)
			}
		}
		if len(agents) == 0 {
			delete(g.updated, id)
		}
	}
}

// judge opens the breaker of a process if its failures ask for that. last is the last breaker of the process. If that
// is open, it makes way for one of a release that more hosts have. Only failures since its opening count for that: a
// host that failed before may have got the other revision since. Those before an update of the host never count.
func (g *Driver) judge(ctx context.Context, id process.ID, failures []breaker.Failure, last store.Breaker, isOpen bool,
	now time.Time,
) (*store.Breaker, error) {
	since := last.Closed
	if isOpen {
		since = last.Opened
	}
	if !g.Rule.Suspect(failures, since, now) {
		return nil, nil //nolint:nilnil // the breaker stays closed
	}
	found, err := g.hostsOf(ctx, id, now)
	if err != nil {
		return nil, err
	}
	trip, trips := g.Rule.Judge(failures, found, since, now)
	if !trips || isOpen && (trip.Revision == found.Release(last.Revision) || trip.Hosts <= found.Count(last.Revision)) {
		return nil, nil //nolint:nilnil // nothing changes
	}
	var instead time.Time
	if isOpen {
		// Told before the change, because afterwards nobody knows of this breaker. An event is kept once.
		if err := g.makeWay(ctx, last, now, trip.Revision); err != nil {
			return nil, err
		}
		instead = last.Opened
	}
	b := store.Breaker{
		Process: id, Revision: trip.Revision, Cause: trip.Cause, Failed: trip.Failed, Hosts: trip.Hosts,
		Agent:  trip.Last,
		Opened: now, Until: now.Add(g.Rule.Hold),
	}
	switch err := g.Store.OpenBreaker(ctx, b, instead); {
	case errors.Is(err, store.ErrExists):
		return nil, nil //nolint:nilnil // another server was first
	case err != nil:
		return nil, err
	}
	g.Log.WarnContext(ctx, "too many hosts fail: relaunches are withheld on all hosts", "process", id, "trip", trip)
	return &b, nil
}

// makeWay tells that an open breaker ends, because another release fails on more hosts.
func (g *Driver) makeWay(ctx context.Context, b store.Breaker, now time.Time, revision int64) error {
	if err := g.tellOpened(ctx, &b); err != nil {
		return err
	}
	why := fmt.Sprintf("the spec of revision %d fails on more hosts", revision)
	g.Log.InfoContext(ctx, "relaunches are withheld no longer", "process", b.Process, "why", why)
	return g.tell(ctx, &b, process.EventBreakerClosed, now, why)
}

// hostsOf returns the agents that keep a process running.
func (g *Driver) hostsOf(ctx context.Context, id process.ID, now time.Time) (breaker.Hosts, error) {
	kept := hostsKept
	if len(g.fresh[id]) > 0 {
		kept = freshKept
	}
	if h, known := g.hosts[id]; known && now.Sub(h.at) < kept {
		return h.Hosts, nil
	}
	var list []breaker.Host
	f := store.ObservedFilter{Process: id, Copies: true, Spec: true}
	for after := (store.ObservedKey{}); ; {
		rows, more, err := g.Store.ListObserved(ctx, f, after, page)
		if err != nil {
			return breaker.Hosts{}, err
		}
		for _, o := range rows {
			after = store.ObservedKey{Agent: o.Agent, Process: o.Process}
			if o.Spec != nil && o.Status.Hosted && o.Spec.Kind() == process.Resident {
				list = append(list, breaker.Host{Agent: o.Agent, Revision: o.Spec.Revision, Digest: o.Spec.Digest()})
			}
		}
		if !more || len(rows) == 0 {
			found := breaker.NewHosts(list)
			g.hosts[id] = hosts{now, found}
			return found, nil
		}
	}
}

// carryOn tells of a breaker what nobody knows yet, and closes it when its time is over.
func (g *Driver) carryOn(ctx context.Context, b store.Breaker, now time.Time) error {
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
	if err := g.tellOpened(ctx, &b); err != nil {
		return err
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

// tellOpened tells that a breaker has opened, unless this driver has done so.
func (g *Driver) tellOpened(ctx context.Context, b *store.Breaker) error {
	if g.opened[b.Process].Equal(b.Opened) {
		return nil
	}
	// perhaps told by another server: then the store drops it
	if err := g.tell(ctx, b, process.EventBreakerOpened, b.Opened, openedText(b)); err != nil {
		return err
	}
	g.opened[b.Process] = b.Opened
	delete(g.sent, b.Process)
	return nil
}

// isOver reports whether an open breaker closes now: its time is over, or no host has its release any more.
func (g *Driver) isOver(ctx context.Context, b *store.Breaker, now time.Time) (bool, error) {
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
	return found.Count(b.Revision) == 0, nil
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
		return fmt.Sprintf("no host has the spec of revision %d any more", b.Revision)
	}
	return "the breaker was open for " + b.Until.Sub(b.Opened).String()
}

// tell stores an event about a breaker, of the host that failed last. Its stream is the breaker's own, so the store
// keeps each event once, whatever dies in between.
func (g *Driver) tell(ctx context.Context, b *store.Breaker, kind process.EventKind, at time.Time, text string) error {
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

// send sends a word to the connected agents of a process that have introduced themselves, or got the process, since a
// time. The word names the revision that the agent has of the release. send skips an agent that does not answer: the
// next word follows, or the last one expires.
func (g *Driver) send(ctx context.Context, b *store.Breaker, now, since time.Time, word wire.Withheld,
) error {
	found, err := g.hostsOf(ctx, b.Process, now)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, senders)
	release := found.Release(word.Revision)
	for agent := range found.Agents() {
		p := g.Presence.Presence(agent, now)
		if !p.Joined || p.Away || !since.IsZero() && !p.Linked.After(since) && !g.fresh[b.Process][agent] {
			continue
		}
		delete(g.fresh[b.Process], agent)
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, sendTime)
			defer cancel()
			word := word
			if own := found.Revision(agent); found.Release(own) == release {
				word.Revision = own
			}
			if err := g.Tell(ctx, agent, []wire.Withheld{word}); err != nil && ctx.Err() == nil {
				g.Log.DebugContext(ctx, "agent did not take the word about relaunches", "agent", agent, "error", err)
			}
		})
	}
	group.Wait()
	return nil
}
