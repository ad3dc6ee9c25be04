package receiver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"drover/internal/server/alarm"
	"drover/internal/server/store"
)

// worker delivers for one receiver.
type worker struct {
	*Sender
	to       store.Receiver
	delivery store.Delivery
	// noted is the stored cursor.
	noted int64
	// pending is the next message to deliver. It is kept until it has arrived, so that a message is not sent again
	// under another name.
	pending *message
	// calm is the pause after a message; 0 while alarms come singly.
	calm time.Duration
	stop context.CancelFunc
	done chan struct{}
}

// message is one delivery.
type message struct {
	name string
	body []byte
	next int64 // the cursor after it
}

// The limits of a worker.
const (
	// readEvents is how many events one read returns, and maxAlarms about how many alarms one message represents.
	readEvents = 1000
	maxAlarms  = 20_000
	// busiest is the longest pause between two messages, as a multiple of Pace.
	busiest = 10
	// firstPause and lastPause bound the pause after a failure. Each pause is twice the previous one, minus a random
	// part of up to half.
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// noteEvery is how many events without an alarm are passed before the progress is stored. noteTime bounds the last
	// write at the end.
	noteEvery = 10_000
	noteTime  = 2 * time.Second
)

func (w *worker) run(ctx context.Context) {
	c := client(w.to.Local)
	defer c.CloseIdleConnections()
	defer w.noteLast(ctx)
	for ctx.Err() == nil {
		w.mu.Lock()
		news := w.news
		w.mu.Unlock()
		// A clock that was set back must not silence the receiver for longer than a failure would.
		pause := min(max(w.delivery.Next.Sub(w.cfg.Now()), 0), lastPause)
		if pause == 0 {
			pause = w.step(ctx, c)
		}
		if pause > 0 {
			news = nil // new events wait with the rest
		}
		if !wait(ctx, pause, news) {
			return
		}
	}
}

// end stops the worker and waits for it.
func (w *worker) end() {
	w.stop()
	<-w.done
}

// step delivers the pending message, and returns the pause before the next step; 0 means to wait for news.
func (w *worker) step(ctx context.Context, c *http.Client) time.Duration {
	if w.pending == nil {
		if err := w.gather(ctx); err != nil {
			if ctx.Err() == nil {
				w.cfg.Log.WarnContext(ctx, "cannot read events for a receiver", "receiver", w.to.Name, "error", err)
			}
			return again
		}
	}
	if w.pending == nil {
		w.calm = 0
		return 0
	}
	if err := post(ctx, c, &w.to, w.pending.name, w.pending.body); err != nil {
		return w.failed(ctx, err)
	}
	w.delivered(ctx)
	w.calm = min(max(2*w.calm, w.cfg.Pace), busiest*w.cfg.Pace)
	return w.calm
}

// gather reads new events and makes one message of their alarms, if there are any.
func (w *worker) gather(ctx context.Context) error {
	filter := store.EventFilter{Namespaces: w.to.Namespaces, Kinds: alarm.Kinds()}
	var alarms []alarm.Alarm
	cursor := w.delivery.Cursor
	for len(alarms) < maxAlarms {
		events, next, err := w.cfg.Store.EventsAfter(ctx, cursor, filter, readEvents)
		if err != nil {
			return err
		}
		if next == cursor {
			break
		}
		cursor = next
		for i := range events {
			host, known := w.cfg.Hosts.ByKey(events[i].Agent)
			if !selects(&w.to, &host, known) {
				continue
			}
			if a, ok := alarm.Of(alarm.Event{Event: events[i].Event, Cloud: host.Cloud, IP: host.IP}); ok {
				alarms = append(alarms, a)
			}
		}
		if len(alarms) == 0 {
			w.skipTo(ctx, cursor)
		}
	}
	if len(alarms) == 0 {
		return nil
	}
	body, err := alarm.Fold(alarms).Encode()
	if err != nil {
		return err
	}
	w.pending = &message{name: fmt.Sprintf("%s-%d", w.to.Name, cursor), body: body, next: cursor}
	return nil
}

// skipTo passes events that are not alarms. It does not write the progress each time.
func (w *worker) skipTo(ctx context.Context, cursor int64) {
	w.delivery.Cursor = cursor
	w.publish()
	if cursor-w.noted >= noteEvery {
		w.note(ctx)
	}
}

// delivered records that the receiver has accepted the pending message.
func (w *worker) delivered(ctx context.Context) {
	if w.delivery.Failures > 0 {
		w.cfg.Log.InfoContext(ctx, "receiver accepts alarms again", "receiver", w.to.Name,
			"failures", w.delivery.Failures)
	}
	w.delivery = store.Delivery{Cursor: w.pending.next, Delivered: w.cfg.Now()}
	w.pending = nil
	w.publish()
	w.note(ctx)
}

// failed records a failure and returns how long to wait.
func (w *worker) failed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	d := &w.delivery
	if d.Failures == 0 {
		d.Failing = w.cfg.Now()
		w.cfg.Log.WarnContext(ctx, "cannot deliver to receiver, retrying", "receiver", w.to.Name, "error", err)
	}
	pause := min(firstPause<<min(d.Failures, 10), lastPause)
	pause -= rand.N(pause / 2) //nolint:gosec // not a secret
	d.Failures++
	d.Error, d.Next = err.Error(), w.cfg.Now().Add(pause)
	w.publish()
	w.note(ctx)
	return pause
}

// publish makes the worker's progress visible to Latest.
func (w *worker) publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest[w.to.Name] = progress{w.to.Created, w.delivery}
}

// note stores the progress. If that fails, alarms may be delivered once more after a restart.
func (w *worker) note(ctx context.Context) {
	if err := w.cfg.Store.PutDelivery(ctx, w.to.Name, w.to.Created, w.delivery); err != nil {
		if ctx.Err() == nil {
			w.cfg.Log.WarnContext(ctx, "cannot store delivery state", "receiver", w.to.Name, "error", err)
		}
		return
	}
	w.noted = w.delivery.Cursor
}

// noteLast stores the final progress, so that the passed events are not read again.
func (w *worker) noteLast(ctx context.Context) {
	if w.delivery.Cursor == w.noted {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	w.note(ctx)
}

// wait returns false when ctx ends, and true when there are news or the pause is over. A pause of 0 waits only for
// news.
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
