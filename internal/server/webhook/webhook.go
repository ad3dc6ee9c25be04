// Package webhook delivers alarms to the addresses that were asked for. The stored events are the outbox: a webhook remembers the
// last event that it has dealt with, so that nothing is lost over a restart, and what a receiver missed for days is folded into
// one message when it is back. It decides nothing about what an alarm is (alarm does) and never holds up whoever stores events.
package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"drover/internal/process"
	"drover/internal/server/alarm"
	"drover/internal/server/store"
)

// Store is what the sender needs of the store.
type Store interface {
	store.Webhooks
	EventsAfter(ctx context.Context, after int64, f store.EventFilter, limit int) (events []store.StoredEvent, next int64, err error)
}

// Hosts tells where an agent lives.
type Hosts interface {
	ByKey(agent string) (store.Agent, bool)
}

// Config is what a Sender needs.
type Config struct {
	Store Store
	Hosts Hosts
	Now   func() time.Time
	Log   *slog.Logger
}

// Sender delivers alarms, with one goroutine for each webhook: one that hangs delays no other.
type Sender struct {
	cfg     Config
	changed chan struct{}
	workers map[string]*worker // belongs to Run

	mu   sync.Mutex
	news chan struct{} // closed, and replaced, when there are new events
}

// New returns a sender that does nothing until Run.
func New(cfg Config) *Sender {
	return &Sender{cfg: cfg, changed: make(chan struct{}, 1), workers: map[string]*worker{}, news: make(chan struct{})}
}

// Changed says that webhooks were added, changed or deleted. It does not block.
func (s *Sender) Changed() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// News says that there are new events. It does not block.
func (s *Sender) News() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.news)
	s.news = make(chan struct{})
}

// listAgain is how long a list that could not be read waits for the next try.
const listAgain = 5 * time.Second

// Run delivers until ctx ends; deliveries under way are given up then, and made again by the next Run.
func (s *Sender) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		again := time.Duration(0)
		if err := s.arrange(ctx, &group); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			s.cfg.Log.WarnContext(ctx, "webhooks could not be listed", "error", err)
			again = listAgain
		}
		if !wait(ctx, again, s.changed) {
			return nil
		}
	}
}

// arrange makes the workers those of the stored webhooks.
func (s *Sender) arrange(ctx context.Context, group *sync.WaitGroup) error {
	hooks, deliveries, err := s.cfg.Store.ListWebhooks(ctx)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for i := range hooks {
		kept[hooks[i].Name] = true
		delivery := deliveries[i]
		if old := s.workers[hooks[i].Name]; old != nil {
			if same(&old.hook, &hooks[i]) {
				continue
			}
			old.stop()
			<-old.done
			delivery = old.delivery // it may have come further than was stored when the list was read
			delivery.Next = time.Time{}
		}
		life, stop := context.WithCancel(ctx)
		w := &worker{Sender: s, hook: hooks[i], delivery: delivery, stop: stop, done: make(chan struct{})}
		s.workers[hooks[i].Name] = w
		group.Go(func() {
			defer close(w.done)
			w.run(life)
		})
	}
	for name, w := range s.workers {
		if !kept[name] {
			w.stop()
			delete(s.workers, name)
		}
	}
	return nil
}

// same reports whether nothing has changed that deliveries depend on.
func same(a, b *store.Webhook) bool {
	return a.URL == b.URL && a.Secret == b.Secret && a.Local == b.Local && a.Created.Equal(b.Created) && slices.Equal(a.Namespaces, b.Namespaces)
}

// Test delivers one made-up alarm to a webhook, at once, and returns why it did not arrive. Nothing else is changed by it.
func (s *Sender) Test(ctx context.Context, w store.Webhook) error {
	e := alarm.Event{IP: "127.0.0.1", Event: process.Event{
		Kind: process.EventRelaunched, Process: process.ID{Namespace: "drover", Name: "test"}, At: s.cfg.Now().UnixMilli(),
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

// worker is one webhook.
type worker struct {
	*Sender
	hook     store.Webhook
	delivery store.Delivery
	stop     context.CancelFunc
	done     chan struct{}
}

// What a worker keeps to.
const (
	// maxEvents is how many alarms one message is made of.
	maxEvents = 1000
	// firstPause and lastPause bound the wait after a failure; each is twice the one before, and up to half of it is left to
	// chance.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
)

func (w *worker) run(ctx context.Context) {
	c := client(w.hook.Local)
	defer c.CloseIdleConnections()
	for ctx.Err() == nil {
		w.mu.Lock()
		news := w.news
		w.mu.Unlock()
		pause := max(w.delivery.Next.Sub(w.cfg.Now()), 0)
		if pause == 0 {
			more, err := w.deliver(ctx, c)
			switch {
			case err != nil:
				pause = w.failed(ctx, err)
			case more:
				continue
			}
		}
		if pause > 0 {
			news = nil // what is new waits with the rest
		}
		if !wait(ctx, pause, news) {
			return
		}
	}
}

// deliver takes the next events and delivers what of them is an alarm. more says that there may be more.
func (w *worker) deliver(ctx context.Context, c *http.Client) (more bool, err error) {
	events, next, err := w.cfg.Store.EventsAfter(ctx, w.delivery.Cursor, store.EventFilter{Namespaces: w.hook.Namespaces, Kinds: alarm.Kinds()}, maxEvents)
	if err != nil {
		return false, fmt.Errorf("cannot read events: %w", err)
	}
	if next == w.delivery.Cursor {
		return false, nil
	}
	after := w.delivery
	after.Cursor = next
	if len(events) > 0 {
		body, err := alarm.Fold(w.alarms(events)).Encode()
		if err != nil {
			return false, err
		}
		if err := post(ctx, c, &w.hook, fmt.Sprintf("%s-%d", w.hook.Name, next), body); err != nil {
			return false, err
		}
		after.Delivered = w.cfg.Now()
		if after.Failures > 0 {
			w.cfg.Log.InfoContext(ctx, "webhook takes alarms again", "webhook", w.hook.Name, "failures", after.Failures)
		}
		after.Failures, after.Failing, after.Error, after.Next = 0, time.Time{}, "", time.Time{}
	}
	if err := w.cfg.Store.PutDelivery(ctx, after); err != nil {
		return false, fmt.Errorf("cannot note the delivery: %w", err)
	}
	w.delivery = after
	return true, nil
}

func (w *worker) alarms(events []store.StoredEvent) []alarm.Alarm {
	list := make([]alarm.Alarm, 0, len(events))
	for i := range events {
		host, _ := w.cfg.Hosts.ByKey(events[i].Agent)
		if a, ok := alarm.Of(alarm.Event{Event: events[i].Event, Cloud: host.Cloud, IP: host.IP}); ok {
			list = append(list, a)
		}
	}
	return list
}

// failed notes a failure and returns how long to wait.
func (w *worker) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	d := &w.delivery
	if d.Failures == 0 {
		d.Failing = w.cfg.Now()
		w.cfg.Log.WarnContext(ctx, "webhook could not be reached, trying again", "webhook", w.hook.Name, "error", err)
	}
	pause := min(firstPause<<min(d.Failures, 10), lastPause)
	pause -= rand.N(pause / 2) //nolint:gosec // nobody gains by guessing it
	d.Failures++
	d.Error, d.Next = err.Error(), w.cfg.Now().Add(pause)
	if err := w.cfg.Store.PutDelivery(ctx, *d); err != nil {
		w.cfg.Log.WarnContext(ctx, "failed delivery could not be noted", "webhook", w.hook.Name, "error", err)
	}
	return pause
}

// wait returns false when ctx has ended, and otherwise once there are news or the pause is over. No pause waits for news alone.
func wait(ctx context.Context, pause time.Duration, news <-chan struct{}) bool {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-news:
	case <-over:
	case <-ctx.Done():
		return false
	}
	return true
}
