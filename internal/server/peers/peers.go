// Package peers exchanges messages between the servers of a fleet over the fabric: which agents are connected,
// changes of the register, finished tasks and the arrival of events. It owns these messages and the list of connected
// servers. It decides nothing and stores nothing. Any message may be lost: the database holds all that counts, and
// each server polls it slowly. The next heartbeat of a server repeats which agents are connected.
package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/fabric"
	"drover/internal/frame"
	"drover/internal/server/fleet"
)

// Link is the way to the other servers.
type Link interface {
	Publish(subject string, data []byte) error
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
	Serve(subject, queue string, workers int, fn fabric.Handler) (stop func(), err error)
}

// Presence holds the state of the agents' links.
type Presence interface {
	// News returns the links that changed by reports to this server, each once.
	News(limit int) []fleet.LinkReport
	// Links returns the state of links in the order of their keys, after the given key.
	Links(after string, limit int) []fleet.LinkReport
	// Hear merges the reports of another server.
	Hear(words []fleet.LinkReport)
}

// Listener receives news. Its functions must not block.
type Listener struct {
	// Agents gets the keys of agents whose rows in the register have changed, and Tasks the ids of tasks with finished
	// items.
	Agents, Tasks func(ids []string)
	// Events is called for new events, Receivers for changed receivers, and Work for changed rollouts, schedules and
	// breakers.
	Events, Receivers, Work func()
	// Left is called when another server has stopped, because the agents that were connected to its broker reconnect to
	// others.
	Left func()
	// Missed is called when news may have been missed, because the link was lost.
	Missed func()
}

// Config holds the parts and settings of a Hub.
type Config struct {
	// ID identifies this run of this server, Name its host, and Database the database.
	ID, Name, Build, Database string
	// Pairs returns the pair of the servers among themselves to seal with, and then all others; at least one.
	Pairs    func() ([]*frame.Pair, error)
	Presence Presence
	Listener Listener
	// Now is the clock of Presence, which all servers share.
	Now func() time.Time
	Log *slog.Logger
}

const (
	// beat is the interval at which a server reports that it is online, and which agents report to it.
	beat = time.Second
	// gather is how long news wait for more news.
	gather = 5 * time.Millisecond
	// goneAfter is how long a silent server counts as online.
	goneAfter = 5 * beat
	// A message holds at most mostLinks links or mostIDs ids, and so stays far below the limit of the fabric.
	mostLinks = 10_000
	mostIDs   = 20_000
	// askTime bounds one request to another server.
	askTime = 5 * time.Second
	// mostOwn is how often a request may reach its own sender before the sender concludes that there is no other
	// server.
	mostOwn = 8
)

// Hub exchanges news with the other servers. Its methods do not block, except Run and Meet.
type Hub struct {
	cfg    Config
	self   sender
	wake   chan struct{}
	missed chan struct{}

	mu                sync.Mutex
	agents, tasks     map[string]struct{}
	events, receivers bool
	work              bool
	members           map[string]member
	foreign           string
	// lastNumber is the number of the last sent news; numbers has the last received number of each run.
	lastNumber uint64
	numbers    map[string]uint64
}

// member is another server.
type member struct {
	sender
	heard time.Time
}

// New returns a hub, which sends nothing before Run.
func New(cfg Config) *Hub {
	return &Hub{
		cfg: cfg, self: sender{Version: version, ID: cfg.ID, Name: cfg.Name, Build: cfg.Build, Database: cfg.Database},
		wake: make(chan struct{}, 1), missed: make(chan struct{}, 1),
		agents: map[string]struct{}{}, tasks: map[string]struct{}{}, members: map[string]member{},
		numbers: map[string]uint64{},
	}
}

// TellAgents notifies the other servers of changed rows of the register.
func (h *Hub) TellAgents(keys ...string) { h.tell(func() { add(h.agents, keys) }) }

// TellTasks notifies the other servers of tasks with finished items.
func (h *Hub) TellTasks(ids []string) { h.tell(func() { add(h.tasks, ids) }) }

// TellEvents notifies the other servers of new events.
func (h *Hub) TellEvents() { h.tell(func() { h.events = true }) }

// TellReceivers notifies the other servers of changed receivers.
func (h *Hub) TellReceivers() { h.tell(func() { h.receivers = true }) }

// TellWork notifies the other servers of changed rollouts, schedules and breakers.
func (h *Hub) TellWork() { h.tell(func() { h.work = true }) }

// tell records news, if there is another server.
func (h *Hub) tell(note func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.members) == 0 {
		return
	}
	note()
	idle.Wake(h.wake)
}

func add(set map[string]struct{}, ids []string) {
	for _, id := range ids {
		set[id] = struct{}{}
	}
}

// Connected reports a new link, so that the hub asks for missed news.
func (h *Hub) Connected() { idle.Wake(h.missed) }

// Count returns the number of online servers, including this one.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return 1 + len(h.members)
}

// Hears reports whether this hub hears another server.
func (h *Hub) Hears(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, there := h.members[id]
	return there
}

// Foreign returns an error if a server with another database uses the same fabric; else nil. Each of the two servers
// would get a part of every agent's reports.
func (h *Hub) Foreign() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.foreign == "" {
		return nil
	}
	return errors.New(h.foreign)
}

// Meet joins the other servers: it subscribes to their news, copies the state of the agents from one of them, and then
// answers such requests itself. It fails if the others have another database. Its subscriptions end with the link.
func (h *Hub) Meet(ctx context.Context, link Link) error {
	_, err := link.Serve(newsSubject, "", 1, func(_ context.Context, _ string, data []byte) []byte {
		h.hear(data)
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot listen to other servers: %w", err)
	}
	if err := h.ask(ctx, link); err != nil {
		return err
	}
	_, err = link.Serve(linksSubject, linksQueue, 1, func(_ context.Context, _ string, data []byte) []byte {
		return h.answer(data)
	})
	if err != nil {
		return fmt.Errorf("cannot listen to other servers: %w", err)
	}
	return nil
}

// ask copies the state of another server. Without an answer, the agents' reports provide it.
func (h *Hub) ask(ctx context.Context, link Link) error {
	begun, after := h.cfg.Now(), ""
	total := 0
	for own := 0; ; {
		data, asked, err := h.seal(frame.Links, linksRequest{sender: h.self, After: after})
		if err != nil {
			return fmt.Errorf("cannot ask other servers: %w", err)
		}
		attempt, cancel := context.WithTimeout(ctx, askTime)
		reply, err := link.Request(attempt, linksSubject, data)
		cancel()
		if errors.Is(err, fabric.ErrNobody) {
			return nil
		}
		var k linksReply
		if err == nil {
			_, _, err = h.open(frame.States, asked, reply, &k, &k.sender)
		}
		if err != nil {
			h.cfg.Log.WarnContext(ctx, "cannot ask another server for its agents", "error", err)
			return nil
		}
		if k.ID == h.self.ID { // the queue group returned the request to its sender
			if own++; own == mostOwn {
				return nil
			}
			continue
		}
		if err := h.compare(k.sender); err != nil {
			return err
		}
		if len(k.Links) == 0 {
			h.cfg.Log.InfoContext(ctx, "another server sent its agents", "server", k.Name, "agents", total,
				"took", h.cfg.Now().Sub(begun))
			return nil
		}
		h.recordMember(k.sender)
		h.cfg.Presence.Hear(read(k.Links, h.cfg.Now()))
		total += len(k.Links)
		after = k.Links[len(k.Links)-1].Key
	}
}

// answer returns the state of links for another server.
func (h *Hub) answer(data []byte) []byte {
	var q linksRequest
	pair, asked, err := h.open(frame.Links, frame.Nonce{}, data, &q, &q.sender)
	if err != nil {
		h.cfg.Log.Warn("cannot answer the request of another server", "error", err)
		return nil
	}
	k := linksReply{sender: h.self}
	if q.ID != h.self.ID && h.compare(q.sender) == nil {
		h.recordMember(q.sender)
		k.Links = linkMessages(h.cfg.Presence.Links(q.After, mostLinks), h.cfg.Now())
	}
	reply, _, err := h.sealBy(pair, frame.States, asked, k)
	if err != nil {
		h.cfg.Log.Error("cannot seal the answer to another server", "error", err)
		return nil
	}
	return reply
}

// compare returns an error if a server has another database.
func (h *Hub) compare(s sender) error {
	if s.Database == h.self.Database {
		return nil
	}
	return fmt.Errorf(
		"server %s uses the same fabric with another database (%s, here %s): all servers of a fleet need one PostgreSQL, and each fleet needs its own fabric and keys",
		s.Name, s.Database, h.self.Database)
}

// recordMember records that a server is online.
func (h *Hub) recordMember(s sender) {
	h.mu.Lock()
	_, known := h.members[s.ID]
	h.members[s.ID] = member{s, h.cfg.Now()}
	h.mu.Unlock()
	if !known {
		h.cfg.Log.Info("another server joined", "server", s.Name, "id", s.ID, "build", s.Build)
	}
}

// hear handles the news of another server.
func (h *Hub) hear(data []byte) {
	var n newsMessage
	if _, _, err := h.open(frame.News, frame.Nonce{}, data, &n, &n.sender); err != nil {
		h.cfg.Log.Warn("rejected message of another server", "error", err)
		return
	}
	if n.ID == h.self.ID || !h.inTurn(n.ID, n.Number) {
		return
	}
	if err := h.compare(n.sender); err != nil {
		h.alarm(err)
		return
	}
	if n.Leaving {
		h.drop(n.ID)
	} else {
		h.recordMember(n.sender)
	}
	if len(n.Links) > 0 {
		h.cfg.Presence.Hear(read(n.Links, h.cfg.Now()))
	}
	l := &h.cfg.Listener
	if len(n.Agents) > 0 {
		l.Agents(n.Agents)
	}
	if len(n.Tasks) > 0 {
		l.Tasks(n.Tasks)
	}
	if n.Events {
		l.Events()
	}
	if n.Receivers {
		l.Receivers()
	}
	if n.Work {
		l.Work()
	}
}

// alarm reports, once, a server with another database.
func (h *Hub) alarm(err error) {
	h.mu.Lock()
	told := h.foreign == err.Error()
	h.foreign = err.Error()
	h.mu.Unlock()
	if !told {
		h.cfg.Log.Error("server of another fleet uses the same fabric", "error", err)
	}
}

func (h *Hub) drop(id string) {
	h.mu.Lock()
	m, known := h.members[id]
	delete(h.members, id)
	h.mu.Unlock()
	if known {
		h.cfg.Log.Info("another server left", "server", m.Name, "id", id)
		h.cfg.Listener.Left()
	}
}

// expire drops servers that are silent for goneAfter.
func (h *Hub) expire() {
	h.mu.Lock()
	var gone []string
	now := h.cfg.Now()
	for id, m := range h.members {
		if now.Sub(m.heard) > goneAfter {
			gone = append(gone, id)
		}
	}
	h.mu.Unlock()
	for _, id := range gone {
		h.drop(id)
	}
}

// Run sends news over a link after Meet, until ctx ends.
func (h *Hub) Run(ctx context.Context, link Link) error {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	h.publish(link, true)
	for {
		select {
		case <-h.wake:
			timer := time.NewTimer(gather)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			h.publish(link, false)
		case <-ticker.C:
			h.expire()
			h.publish(link, true)
		case <-h.missed:
			if err := h.ask(ctx, link); err != nil {
				h.alarm(err)
			}
			h.cfg.Listener.Missed()
		case <-ctx.Done():
			h.publish(link, false)
			h.send(link, newsMessage{sender: h.self, Leaving: true})
			return nil
		}
	}
}

// publish sends the collected news. With alive it also sends that this server is online and which agents report to it.
func (h *Hub) publish(link Link, alive bool) {
	for {
		n := newsMessage{sender: h.self}
		h.mu.Lock()
		n.Agents, n.Tasks = take(h.agents), take(h.tasks)
		n.Events, n.Receivers, n.Work = h.events, h.receivers, h.work
		h.events, h.receivers, h.work = false, false, false
		h.mu.Unlock()
		if alive {
			n.Links = linkMessages(h.cfg.Presence.News(mostLinks), h.cfg.Now())
		}
		if !alive && len(n.Agents)+len(n.Tasks) == 0 && !n.Events && !n.Receivers && !n.Work {
			return
		}
		if !h.send(link, n) || len(n.Links) < mostLinks && len(n.Agents) < mostIDs && len(n.Tasks) < mostIDs {
			return
		}
	}
}

// take removes and returns the ids of a set.
func take(set map[string]struct{}) []string {
	if len(set) <= mostIDs {
		ids := slices.Collect(maps.Keys(set))
		clear(set)
		return ids
	}
	ids := make([]string, 0, mostIDs)
	for id := range set {
		if len(ids) == mostIDs {
			break
		}
		delete(set, id)
		ids = append(ids, id)
	}
	return ids
}

// send reports whether the message was sent. The hub does not resend a failed message, because the database has its
// content.
func (h *Hub) send(link Link, n newsMessage) bool {
	h.mu.Lock()
	h.lastNumber++
	n.Number = h.lastNumber
	h.mu.Unlock()
	data, _, err := h.seal(frame.News, n)
	if err == nil {
		err = link.Publish(newsSubject, data)
	}
	if err != nil {
		h.cfg.Log.Debug("cannot send message to other servers", "error", err)
	}
	return err == nil
}
