// Package receiver delivers alarms to the addresses of receivers. The stored events are the outbox: a receiver remembers
// its last processed event, so a restart loses nothing. If a receiver was down for days, it gets its missed alarms
// folded into a few messages. The package does not decide what an alarm is (alarm does) and never blocks the storing
// of events.
package receiver

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/process"
	"drover/internal/selector"
	"drover/internal/server/alarm"
	"drover/internal/server/store"
)

// Store is the part of the store for the sender.
type Store interface {
	ListReceivers(ctx context.Context) ([]store.Subscription, error)
	PutDelivery(ctx context.Context, name string, created time.Time, d store.Delivery) error
	EventsAfter(ctx context.Context, after int64, f store.EventFilter,
		limit int) (events []store.StoredEvent, next int64, err error)
}

// Hosts returns the host of an agent.
type Hosts interface {
	ByKey(agent string) (store.Agent, bool)
}

// Config holds the parts and settings of a Sender. All fields except Pace are required.
type Config struct {
	Store Store
	Hosts Hosts
	Now   func() time.Time
	Log   *slog.Logger
	// Pace is the least time between two messages to one receiver (1 s). While alarms keep coming it doubles, up to ten
	// times as much: the first alarm is delivered at once, and a storm becomes a few messages.
	Pace time.Duration
}

// Sender delivers alarms, with one goroutine for each receiver, so that a receiver that hangs delays no other.
type Sender struct {
	cfg     Config
	changed chan struct{}
	workers map[string]*worker // only Run uses it

	mu   sync.Mutex
	news chan struct{} // closed, and replaced, when there are new events
	// latest is the progress of each worker. It may be ahead of the stored progress while there is nothing to deliver.
	latest map[string]progress
}

// progress is the progress of a receiver with the given creation time.
type progress struct {
	created  time.Time
	delivery store.Delivery
}

// New returns a sender that does nothing until Run.
func New(cfg Config) *Sender {
	if cfg.Pace <= 0 {
		cfg.Pace = time.Second
	}
	return &Sender{
		cfg: cfg, changed: make(chan struct{}, 1), workers: map[string]*worker{}, news: make(chan struct{}),
		latest: map[string]progress{},
	}
}

// Changed reports that receivers were added, changed or deleted. It does not block.
func (s *Sender) Changed() { idle.Wake(s.changed) }

// News reports new events. It does not block.
func (s *Sender) News() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.news)
	s.news = make(chan struct{})
}

// Due counts the alarms that a receiver has not handled.
func (s *Sender) Due(ctx context.Context, sub store.Subscription) (n int64, err error) {
	filter := store.EventFilter{Namespaces: sub.Receiver.Namespaces, Kinds: alarm.Kinds()}
	for cursor := s.Latest(sub).Cursor; ; {
		events, next, err := s.cfg.Store.EventsAfter(ctx, cursor, filter, readEvents)
		if err != nil || next == cursor {
			return n, err
		}
		cursor = next
		for i := range events {
			if host, known := s.cfg.Hosts.ByKey(events[i].Agent); selects(&sub.Receiver, &host, known) {
				n++
			}
		}
	}
}

// selects reports whether a receiver receives the alarms of a host. An unknown host matches no selector.
func selects(w *store.Receiver, host *store.Agent, known bool) bool {
	if w.Selector == "" {
		return true
	}
	s, err := selector.Parse(w.Selector)
	return err == nil && known && s.Matches(host.Select)
}

// Latest returns the progress of a receiver: this sender's, or else the stored progress.
func (s *Sender) Latest(sub store.Subscription) store.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.latest[sub.Receiver.Name]; ok && p.created.Equal(sub.Receiver.Created) {
		return p.delivery
	}
	return sub.Delivery
}

// again is the retry delay of a failed read of the store.
const again = 5 * time.Second

// Run delivers until ctx ends. It then cancels open deliveries, and the next Run, on this or another server, repeats
// them. Run may be called again after it has returned.
func (s *Sender) Run(ctx context.Context) error {
	defer s.forget()
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		pause := time.Duration(0)
		if err := s.arrange(ctx, &group); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			s.cfg.Log.WarnContext(ctx, "cannot list receivers", "error", err)
			pause = again
		}
		if !wait(ctx, pause, s.changed) {
			return nil
		}
	}
}

// forget drops the progress in memory, because another sender may be further from now on.
func (s *Sender) forget() {
	clear(s.workers)
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.latest)
}

// arrange starts and stops workers to match the stored receivers.
func (s *Sender) arrange(ctx context.Context, group *sync.WaitGroup) error {
	list, err := s.cfg.Store.ListReceivers(ctx)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, sub := range list {
		name := sub.Receiver.Name
		kept[name] = true
		if old := s.workers[name]; old != nil {
			if same(&old.to, &sub.Receiver) {
				continue
			}
			old.end()
			sub.Delivery = s.Latest(sub) // the worker may be ahead of the list
			sub.Delivery.Next = time.Time{}
		}
		life, stop := context.WithCancel(ctx)
		w := &worker{
			Sender: s, to: sub.Receiver, delivery: sub.Delivery, noted: sub.Delivery.Cursor, stop: stop,
			done: make(chan struct{}),
		}
		s.workers[name] = w
		w.publish()
		group.Go(func() {
			defer close(w.done)
			w.run(life)
		})
	}
	for name, w := range s.workers {
		if !kept[name] {
			w.end()
			delete(s.workers, name)
			s.mu.Lock()
			delete(s.latest, name)
			s.mu.Unlock()
		}
	}
	return nil
}

// same reports whether deliveries are unaffected by a change.
func same(a, b *store.Receiver) bool {
	return a.URL == b.URL && a.Secret == b.Secret && a.Local == b.Local && a.Created.Equal(b.Created) &&
		slices.Equal(a.Namespaces, b.Namespaces) && a.Selector == b.Selector
}

// Test delivers one made-up alarm to a receiver, at once, and returns why it did not arrive. Nothing else is changed by
// it.
func (s *Sender) Test(ctx context.Context, w store.Receiver) error {
	e := alarm.Event{IP: "127.0.0.1", Event: process.Event{
		Kind: process.EventRelaunched, Process: process.ID{Namespace: "drover", Name: "test"},
		At:    s.cfg.Now().UnixMilli(),
		Cause: process.Cause{Text: "a test delivery, nothing has happened"},
	}}
	a, _ := alarm.Of(e)
	body, err := alarm.Fold([]alarm.Alarm{a}).Encode()
	if err != nil {
		return err
	}
	c := client(w.Local)
	defer c.CloseIdleConnections()
	return post(ctx, c, &w, w.Name+"-test", body)
}
