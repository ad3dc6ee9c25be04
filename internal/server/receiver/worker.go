package receiver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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
	// withheld are the alarms that wait for the end of their silence; nil until they are read. unsaved are changes of
	// them that belong to the present cursor and are not stored.
	withheld map[store.AlarmKey]store.StoredEvent
	unsaved  withheld
	// release is the time of the next look at the withheld alarms; the zero time if there are none. silences tells
	// which silences the last look has seen.
	release  time.Time
	silences string
	// calm is the pause after a message; 0 while alarms come singly.
	calm time.Duration
	stop context.CancelFunc
	done chan struct{}
}

// message is one delivery.
type message struct {
	name, subject string
	body          []byte
	next          int64 // the cursor after it
	withheld      withheld
}

// withheld are changes of withheld alarms: those that are added, those that are dropped (nil), and how many each
// silence has withheld.
type withheld struct {
	alarms map[store.AlarmKey]*store.StoredEvent
	counts map[string]int64
}

func newWithheld() withheld {
	return withheld{map[store.AlarmKey]*store.StoredEvent{}, map[string]int64{}}
}

// add appends later changes.
func (w *withheld) add(later withheld) {
	maps.Copy(w.alarms, later.alarms)
	for id, n := range later.counts {
		w.counts[id] += n
	}
}

func (w *withheld) empty() bool { return len(w.alarms)+len(w.counts) == 0 }

// stored returns the changes in the form of the store.
func (w *withheld) stored() (changes store.Withheld) {
	for key, e := range w.alarms {
		if e == nil {
			changes.Dropped = append(changes.Dropped, key)
		} else {
			changes.Added = append(changes.Added, *e)
		}
	}
	changes.Counts = w.counts
	return changes
}

// The limits of a worker.
const (
	// readEvents is how many events one read returns, and maxAlarms about how many alarms one message represents.
	// maxAlerts is the same for an alertmanager, which gets each alarm.
	readEvents = 1000
	maxAlarms  = 20_000
	maxAlerts  = 2000
	// relook is the longest time between two looks at the withheld alarms: a host may have got another label.
	relook = time.Minute
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
	t := w.transport(&w.to)
	defer t.close()
	defer w.storeLastProgress(ctx)
	for ctx.Err() == nil {
		w.mu.Lock()
		news := w.news
		w.mu.Unlock()
		// A clock that was set back must not silence the receiver for longer than a failure would.
		pause := min(max(w.delivery.Next.Sub(w.cfg.Now()), 0), lastPause)
		if pause == 0 {
			pause = w.step(ctx, t)
		}
		if pause > 0 {
			news = nil // new events wait with the rest
		} else if !w.release.IsZero() {
			pause = min(max(w.release.Sub(w.cfg.Now()), time.Millisecond), lastPause)
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
func (w *worker) step(ctx context.Context, t transport) time.Duration {
	if w.pending == nil {
		if err := w.gather(ctx); err != nil {
			if _, ok := errors.AsType[*templateError](err); ok {
				return w.failed(ctx, err)
			}
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
	if err := t.send(ctx, w.pending); err != nil {
		return w.failed(ctx, err)
	}
	w.delivered(ctx)
	w.calm = min(max(2*w.calm, w.cfg.Pace), busiest*w.cfg.Pace)
	return w.calm
}

// gather reads new events and makes one message of their alarms, and of the withheld alarms whose silence has ended.
func (w *worker) gather(ctx context.Context) error {
	if err := w.loadWithheld(ctx); err != nil {
		return err
	}
	f, err := w.newFilter(ctx, &w.to, w.cfg.Now().Add(-latestEvent))
	if err != nil {
		return err
	}
	most := maxAlarms
	if w.to.Kind == store.KindAlertmanager {
		most = maxAlerts
	}
	alarms, cursor, changes, err := w.read(ctx, f, most)
	if err != nil {
		return err
	}
	released, more, err := w.releases(ctx, f, changes, most-len(alarms))
	if err != nil {
		return err
	}
	alarms = append(alarms, released...)
	w.plan(f, changes, more)
	if len(alarms) == 0 {
		w.keep(changes)
		return nil
	}
	m, err := compose(&w.to, alarms, w.cfg.Now())
	if err != nil {
		return err
	}
	m.name, m.next, m.withheld = fmt.Sprintf("%s-%d", w.to.Name, cursor), cursor, changes
	if len(released) > 0 {
		m.name += fmt.Sprintf("-%d", w.cfg.Now().Unix()) // an earlier message may have ended with the same event
	}
	w.pending = m
	return nil
}

// read reads about as many new alarms as most, the cursor after them, and the changes of the withheld alarms that
// belong to that cursor.
func (w *worker) read(ctx context.Context, f *filter, most int,
) (alarms []alarm.Event, cursor int64, changes withheld, err error) {
	changes, cursor = newWithheld(), w.delivery.Cursor
	for len(alarms) < most && f.to != nil {
		events, next, err := w.cfg.Store.EventsAfter(ctx, cursor, f.events(), readEvents)
		if err != nil {
			return nil, 0, changes, err
		}
		if next == cursor {
			break
		}
		cursor = next
		if err := f.prepare(ctx, events); err != nil {
			return nil, 0, changes, err
		}
		for i := range events {
			if a, ok := f.take(&events[i], changes); ok {
				alarms = append(alarms, a)
			}
		}
		if len(alarms) == 0 {
			w.skipTo(ctx, cursor, changes)
			changes = newWithheld()
		}
	}
	return alarms, cursor, changes, nil
}

// latestEvent is how late an event may arrive: silences that ended longer ago are forgotten.
const latestEvent = 28 * 24 * time.Hour

// take decides about an event: it is delivered (ok), or withheld, or not for this receiver.
func (f *filter) take(e *store.StoredEvent, changes withheld) (a alarm.Event, ok bool) {
	if !f.selected(e) {
		return a, false
	}
	ended := f.ended(e.Event.Kind)
	for _, kind := range ended {
		if alarm.OnlyTold(kind) {
			key := e.Key()
			key.Kind = kind
			changes.alarms[key] = nil
		}
	}
	if a = f.of(e); alarm.Is(e.Event.Kind) && f.wants(e.Event.Kind) {
		silence := f.silence(e, time.UnixMilli(e.Event.At))
		if silence == "" {
			changes.alarms[e.Key()] = nil // this alarm tells what a withheld one would tell
			return a, true
		}
		changes.counts[silence]++
		if alarm.Lasts(e.Event.Kind) {
			changes.alarms[e.Key()] = e
		}
	}
	a.Ends = true
	return a, f.to.Kind == store.KindAlertmanager && len(ended) > 0
}

// loadWithheld reads the withheld alarms, once.
func (w *worker) loadWithheld(ctx context.Context) error {
	if w.withheld != nil {
		return nil
	}
	list, err := w.cfg.Store.ListWithheld(ctx, w.to.Name)
	if err != nil {
		return err
	}
	w.withheld = map[store.AlarmKey]store.StoredEvent{}
	for i := range list {
		w.withheld[list[i].Key()] = list[i]
	}
	return nil
}

// doubtful returns the withheld alarms, after the changes, that a silence may withhold no longer, oldest first. Between
// two looks at all of them these are the new ones.
func (w *worker) doubtful(f *filter, changes withheld) []store.StoredEvent {
	all := map[store.AlarmKey]store.StoredEvent{}
	if present := f.silences(); w.silences != present || !w.cfg.Now().Before(w.release) {
		w.silences, w.release = present, time.Time{} // until plan: a look that fails is repeated
		maps.Copy(all, w.withheld)
	}
	for key, e := range changes.alarms {
		if e == nil {
			delete(all, key)
		} else {
			all[key] = *e
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b store.StoredEvent) int { return int(a.Cursor - b.Cursor) })
}

// releases returns the withheld alarms that no silence withholds any more and that still hold, at most as many as most,
// and whether there are more. It drops all others that no silence withholds.
func (w *worker) releases(ctx context.Context, f *filter, changes withheld, most int,
) (released []alarm.Event, more bool, err error) {
	now := w.cfg.Now()
	for part := range slices.Chunk(w.doubtful(f, changes), readEvents) {
		if f.needLabels() {
			if err := f.readFacts(ctx, part); err != nil {
				return nil, false, err
			}
		}
		part = slices.DeleteFunc(part, func(e store.StoredEvent) bool { return f.silence(&e, now) != "" })
		if len(released)+len(part) > max(most, 0) {
			return released, true, nil
		}
		if err := f.readFacts(ctx, part); err != nil {
			return nil, false, err
		}
		for i := range part {
			if f.holds(&part[i]) {
				released = append(released, f.of(&part[i]))
			}
			changes.alarms[part[i].Key()] = nil
		}
	}
	return released, false, nil
}

// plan sets the time of the next look at the withheld alarms.
func (w *worker) plan(f *filter, changes withheld, more bool) {
	now, waiting := w.cfg.Now(), len(w.withheld)
	for key, e := range changes.alarms {
		if _, known := w.withheld[key]; known && e == nil {
			waiting--
		} else if !known && e != nil {
			waiting++
		}
	}
	switch {
	case more:
		w.release = now
	case waiting > 0:
		w.release = now.Add(relook)
		if end, ok := f.nextEnd(now); ok && end.Before(w.release) {
			w.release = end
		}
	default:
		w.release = time.Time{}
	}
}

// keep makes changes of the withheld alarms part of the present progress.
func (w *worker) keep(changes withheld) {
	for key, e := range changes.alarms {
		if _, known := w.withheld[key]; e == nil && !known {
			delete(changes.alarms, key) // nothing to drop
		} else if e == nil {
			delete(w.withheld, key)
		} else {
			w.withheld[key] = *e
		}
	}
	w.unsaved.add(changes)
}

// skipTo passes events that are not delivered. It does not write the progress each time.
func (w *worker) skipTo(ctx context.Context, cursor int64, changes withheld) {
	w.delivery.Cursor = cursor
	w.keep(changes)
	w.publish()
	if cursor-w.noted >= noteEvery || !w.unsaved.empty() {
		w.storeProgress(ctx)
	}
}

// delivered records that the receiver has accepted the pending message.
func (w *worker) delivered(ctx context.Context) {
	if w.delivery.Failures > 0 {
		w.cfg.Log.InfoContext(ctx, "receiver accepts alarms again", "receiver", w.to.Name,
			"failures", w.delivery.Failures)
	}
	w.delivery = store.Delivery{Cursor: w.pending.next, Delivered: w.cfg.Now()}
	w.keep(w.pending.withheld)
	w.pending = nil
	w.publish()
	w.storeProgress(ctx)
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
	w.storeProgress(ctx)
	return pause
}

// publish makes the worker's progress visible to Latest.
func (w *worker) publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest[w.to.Name] = progress{w.to.Created, w.delivery}
}

// storeProgress stores the progress. If that fails, alarms may be delivered once more after a restart.
func (w *worker) storeProgress(ctx context.Context) {
	err := w.cfg.Store.PutDelivery(ctx, w.to.Name, w.to.Created, w.delivery, w.unsaved.stored())
	if err != nil {
		if ctx.Err() == nil {
			w.cfg.Log.WarnContext(ctx, "cannot store delivery state", "receiver", w.to.Name, "error", err)
		}
		return
	}
	w.noted, w.unsaved = w.delivery.Cursor, newWithheld()
}

// storeLastProgress stores the final progress, so that the passed events are not read again.
func (w *worker) storeLastProgress(ctx context.Context) {
	if w.delivery.Cursor == w.noted && w.unsaved.empty() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	w.storeProgress(ctx)
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
