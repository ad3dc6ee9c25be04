// Package receiver delivers alarms to receivers, unless a silence withholds them. The stored events are the outbox: a
// receiver remembers its last processed event, so a restart loses nothing. If a receiver was down for days, it gets its
// missed alarms folded into a few messages. The package does not decide what an alarm is (alarm does) and never blocks
// the storing of events.
package receiver

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"drover/internal/idle"

	"drover/internal/process"
	"drover/internal/server/alarm"
	"drover/internal/server/store"
)

// Store is the part of the store for the sender.
type Store interface {
	ListReceivers(ctx context.Context) ([]store.Subscription, error)
	store.Deliveries
	ListSilences(ctx context.Context, after time.Time) ([]store.Silence, error)
	GetObserved(ctx context.Context, id process.ID, agents []string, fn func(store.Observed) error) error
	EventsAfter(ctx context.Context, after int64, f store.EventFilter,
		limit int) (events []store.StoredEvent, next int64, err error)
	ListFormer(ctx context.Context, limit int) ([]store.FormerAgent, error)
}

// Hosts returns the host of an agent.
type Hosts interface {
	ByKey(agent string) (store.Agent, bool)
}

// Config holds the parts and settings of a Sender. All fields except Pace and Roots are required.
type Config struct {
	Store Store
	Hosts Hosts
	Now   func() time.Time
	Log   *slog.Logger
	// Pace is the least time between two messages to one receiver (1 s). While alarms keep coming it doubles, up to ten
	// times as much: the first alarm is delivered at once, and a storm becomes a few messages.
	Pace time.Duration
	// Roots are the certificates that receivers are verified with; nil means those of the system.
	Roots *x509.CertPool
}

// Sender delivers alarms, with one goroutine for each receiver, so that a receiver that hangs delays no other.
type Sender struct {
	cfg     Config
	changed chan struct{}
	workers map[string]*worker // only Run uses it
	// transport returns what delivers to a receiver.
	transport func(to *store.Receiver) transport

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
		latest:    map[string]progress{},
		transport: func(to *store.Receiver) transport { return newTransport(to, cfg.Roots) },
	}
}

// Changed reports that receivers or silences were added, changed or deleted. It does not block.
func (s *Sender) Changed() {
	idle.Wake(s.changed)
	s.News() // the end of a silence releases alarms
}

// News reports new events. It does not block.
func (s *Sender) News() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.news)
	s.news = make(chan struct{})
}

// Due counts the alarms that a receiver has not handled.
func (s *Sender) Due(ctx context.Context, sub store.Subscription) (n int64, err error) {
	f, err := s.newFilter(ctx, &sub.Receiver, s.cfg.Now().Add(-latestEvent))
	if err != nil || f.to == nil {
		return 0, err
	}
	for cursor := s.Latest(sub).Cursor; ; {
		events, next, err := s.cfg.Store.EventsAfter(ctx, cursor, f.events(), readEvents)
		if err != nil || next == cursor {
			return n, err
		}
		cursor = next
		if err := f.prepare(ctx, events); err != nil {
			return n, err
		}
		for i := range events {
			if _, ok := f.take(&events[i], newWithheld()); ok && alarm.Is(events[i].Event.Kind) {
				n++
			}
		}
	}
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
		old := s.workers[name]
		if old != nil {
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
			done: make(chan struct{}), unsaved: newWithheld(),
		}
		if old != nil {
			w.withheld, w.unsaved = old.withheld, old.unsaved // it may not have been able to store them
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
	x, y := *a, *b
	x.Note, y.Note = "", ""
	x.Changed, y.Changed = time.Time{}, time.Time{}
	x.Created, y.Created = x.Created.UTC(), y.Created.UTC()
	return reflect.DeepEqual(x, y)
}

// Test delivers one made-up alarm to a receiver, at once, and returns why it did not arrive. Nothing else is changed by
// it.
func (s *Sender) Test(ctx context.Context, to store.Receiver) error {
	e := alarm.Event{IP: "127.0.0.1", Event: process.Event{
		Kind: process.EventRelaunched, Process: process.ID{Namespace: "drover", Name: "test"},
		At:    s.cfg.Now().UnixMilli(),
		Cause: process.Cause{Text: "a test delivery, nothing has happened"},
	}}
	m, err := compose(&to, []alarm.Event{e}, s.cfg.Now())
	if err != nil {
		return err
	}
	m.name = to.Name + "-test"
	t := s.transport(&to)
	defer t.close()
	return t.send(ctx, m)
}

// transport delivers messages to one receiver. The error of send is for an operator and holds no secret.
type transport interface {
	send(ctx context.Context, m *message) error
	close()
}

func newTransport(to *store.Receiver, roots *x509.CertPool) transport {
	if to.Kind == store.KindEmail {
		return &mailTransport{to, roots}
	}
	return &httpTransport{to, client(to.Local, roots)}
}

// compose makes a message of alarms in the form of the receiver. The message has no name yet.
func compose(to *store.Receiver, alarms []alarm.Event, now time.Time) (*message, error) {
	if to.Kind == store.KindAlertmanager {
		body, err := json.Marshal(alarm.Alerts(alarms, now))
		if err != nil {
			return nil, fmt.Errorf("cannot encode alarms: %w", err)
		}
		return &message{body: body}, nil
	}
	list := make([]alarm.Alarm, 0, len(alarms))
	for _, e := range alarms {
		if a, ok := alarm.Of(e); ok {
			list = append(list, a)
		}
	}
	folded := alarm.Fold(list)
	if to.Kind == store.KindEmail {
		return composeMail(to, folded.Data)
	}
	if to.Body != "" {
		return composeJSON(to, folded.Data)
	}
	body, err := folded.Encode()
	return &message{body: body}, err
}
