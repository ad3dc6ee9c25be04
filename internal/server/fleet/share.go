package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drover/internal/server/store"
)

// LinkReport is what one server knows of an agent's link, for the others.
type LinkReport struct {
	Key string
	// Seen and Lost are when the agent was last heard, and found to be gone; zero: never.
	Seen, Lost time.Time
	// Introduced says that the agent has said what it is, Since when that was, Facts what it said.
	Introduced bool
	Since      time.Time
	Facts      Facts
	// Rival is a second host with the agent's key; zero where none was heard.
	Rival Rival
}

// Share says that other servers write to the same register: the directory notes what it hears itself, for News, and
// calls changed when it has changed the row of an agent; that must not block. It is for before anything is heard.
func (d *Directory) Share(changed func(agent string)) {
	d.news, d.changed = map[string]bool{}, changed
}

// Keys that are not here are looked up so often at once, and so often a second after that: a proxy can make up any
// number of them, and each look keeps all who report waiting.
const (
	lookupsAtOnce = 200
	lookupsRate   = 50
)

// ErrLookups refuses to look for one more key that is not here.
var ErrLookups = errors.New("request for too many unknown keys")

// Find finds an agent by its public nkey, also one that has just joined elsewhere, unless too many are looked for.
func (d *Directory) Find(ctx context.Context, key string) (a store.Agent, known bool, err error) {
	if a, known = d.ByKey(key); known || d.news == nil {
		return a, known, nil
	}
	if !d.lookups.Allow() {
		return store.Agent{}, false, ErrLookups
	}
	if err := d.Refresh(ctx, []string{key}); err != nil {
		return store.Agent{}, false, err
	}
	a, known = d.ByKey(key)
	return a, known, nil
}

// News returns the links that have changed by what was heard here, each once, and at most so many.
func (d *Directory) News(limit int) []LinkReport {
	d.mu.Lock()
	defer d.mu.Unlock()
	words := make([]LinkReport, 0, min(limit, len(d.news)))
	for key, met := range d.news {
		if len(words) == limit {
			break
		}
		delete(d.news, key)
		l, linked := d.links[key]
		rival, claimed := d.rivals[key]
		if linked || claimed {
			w := l.report(key, rival)
			w.Introduced = w.Introduced && met // the others have heard of it
			words = append(words, w)
		}
	}
	return words
}

// Links returns what is known of links, in the order of their keys, beginning behind one.
func (d *Directory) Links(after string, limit int) []LinkReport {
	d.mu.RLock()
	defer d.mu.RUnlock()
	keys := make([]string, 0, len(d.links))
	for key := range d.links {
		if key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	words := make([]LinkReport, 0, min(limit, len(keys)))
	for _, key := range keys[:cap(words)] {
		words = append(words, d.links[key].report(key, d.rivals[key]))
	}
	return words
}

// Hear takes what another server knows. Of two words the later one counts, whatever the order in which they arrive.
func (d *Directory) Hear(words []LinkReport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range words {
		if _, joined := d.byKey[w.Key]; !joined {
			d.hearEarly(w)
			continue
		}
		l := d.links[w.Key].merge(w)
		d.links[w.Key] = l
		if w.Rival.Place != "" {
			d.rivals[w.Key] = d.rivals[w.Key].merge(w.Rival)
		}
		if d.rivals[w.Key].Place == l.facts.Place { // the key was granted to it
			delete(d.rivals, w.Key)
		}
	}
}

// mostEarly bounds the links of agents whose rows are not here.
const mostEarly = 10_000

// hearEarly takes a word of an agent whose row is still on the way, under the lock. That it has introduced itself is
// told only once, so it is kept; all else comes again with its next heartbeat.
func (d *Directory) hearEarly(w LinkReport) {
	l, kept := d.early[w.Key]
	if !kept && !w.Introduced {
		return
	}
	if !kept && len(d.early) >= mostEarly {
		for key := range d.early { // of an agent that was removed, most likely: rows are seconds behind
			delete(d.early, key)
			break
		}
	}
	d.early[w.Key] = l.merge(w)
}

// catchUp takes in what was heard of an agent before its row was here, under the lock.
func (d *Directory) catchUp(key string) {
	if l, kept := d.early[key]; kept {
		delete(d.early, key)
		d.links[key] = d.links[key].merge(l.report(key, Rival{}))
	}
}

// Refresh reads the rows of some agents again, which another server may have changed or removed.
func (d *Directory) Refresh(ctx context.Context, keys []string) error {
	d.joining.Lock()
	defer d.joining.Unlock()
	rows, err := d.agents.GetAgents(ctx, keys)
	if err != nil {
		return fmt.Errorf("cannot read agents again: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	there := make(map[string]bool, len(rows))
	for _, a := range rows {
		there[a.Key] = true
		d.take(a)
	}
	for _, key := range keys {
		if !there[key] {
			d.forget(key)
		}
	}
	return nil
}

// Shift moves all that is remembered by as much as the clock has been set.
func (d *Directory) Shift(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started, d.linked = d.started.Add(by), d.linked.Add(by)
	for _, links := range []map[string]agentLink{d.links, d.early} {
		for key, l := range links {
			for _, t := range []*time.Time{&l.seen, &l.lost, &l.since} {
				if !t.IsZero() {
					*t = t.Add(by)
				}
			}
			links[key] = l
		}
	}
	for key, r := range d.rivals {
		for _, t := range []*time.Time{&r.Since, &r.Last, &r.Proven} {
			if !t.IsZero() {
				*t = t.Add(by)
			}
		}
		d.rivals[key] = r
	}
}

// Clock notes how far the clock of an agent's host is ahead.
func (d *Directory) Clock(key string, ahead time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, ok := d.links[key]; ok && (l.ahead-ahead).Abs() >= time.Second {
		l.ahead = ahead
		d.links[key] = l
	}
}

// Unsteady counts the agents that are there and whose clocks are off by more than a bound, and returns how far the
// worst is ahead.
func (d *Directory) Unsteady(now time.Time, bound time.Duration) (count int, worst time.Duration) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for key, l := range d.links {
		if l.ahead.Abs() <= bound {
			continue
		}
		if _, joined := d.byKey[key]; !joined || l.presence(true, d.started, now).Away {
			continue
		}
		count++
		if l.ahead.Abs() > worst.Abs() {
			worst = l.ahead
		}
	}
	return count, worst
}

// tell notes that a link has changed by what was heard here, under the lock; met says that the agent has introduced
// itself.
func (d *Directory) tell(key string, met bool) {
	if d.news != nil {
		d.news[key] = d.news[key] || met
	}
}

func (l agentLink) report(key string, rival Rival) LinkReport {
	return LinkReport{
		Key: key, Seen: l.seen, Lost: l.lost, Introduced: l.introduced, Since: l.since, Facts: l.facts,
		Rival: rival,
	}
}

// merge returns the link as it is by what is known here and elsewhere.
func (l agentLink) merge(w LinkReport) agentLink {
	if w.Seen.After(l.seen) {
		l.seen = w.Seen
	}
	if w.Lost.After(l.lost) && w.Lost.After(l.seen) {
		l = l.lose(w.Lost)
	}
	if w.Introduced && w.Since.After(l.since) && !w.Since.Before(l.lost) {
		l.introduced, l.since, l.facts = true, w.Since, w.Facts
	}
	if l.seen.After(l.lost) {
		l.lost = time.Time{}
	}
	return l
}
