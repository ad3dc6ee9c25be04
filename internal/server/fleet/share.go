package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drover/internal/server/store"
)

// LinkReport is one server's state of an agent's link, for the other servers.
type LinkReport struct {
	Key string
	// Seen is the time of the agent's last message, and Lost the time at which its link was found lost; zero means
	// never.
	Seen, Lost time.Time
	// Introduced is set if the agent has introduced itself, Since is the time, and Facts the content.
	Introduced bool
	Since      time.Time
	Facts      Facts
	// Rival is a second host with the agent's key; zero if there is none.
	Rival Rival
	// Load is how busy the host is; zero if that is unknown.
	Load Load
	// Rare is set if the agent has to report only once a minute.
	Rare bool
	// Trust is the digest of what the agent trusts; empty if that is unknown.
	Trust string
}

// Share prepares the directory for other servers on the same register. The directory then collects its changes for
// News, and calls changed when it has changed the row of an agent; changed must not block. Call Share before the first
// report.
func (d *Directory) Share(changed func(agent string)) {
	d.news, d.changed = map[string]bool{}, changed
}

// The limits of lookups of unknown keys: at once, and then per second. A proxy can invent any number of keys, and each
// lookup delays all reports.
const (
	lookupsAtOnce = 200
	lookupsRate   = 50
)

// ErrLookups rejects a lookup of one more unknown key.
var ErrLookups = errors.New("request for too many unknown keys")

// Find finds an agent by its public nkey. It also asks the store for an agent that has just joined through another
// server, within a limit.
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

// News returns the links that changed by reports to this server, each once, and at most limit.
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
			w.Introduced = w.Introduced && met // the other servers know of it
			words = append(words, w)
		}
	}
	return words
}

// Links returns the state of links in the order of their keys, after the given key.
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

// Hear merges the reports of another server. The later report counts, in whatever order they arrive.
func (d *Directory) Hear(words []LinkReport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range words {
		if _, joined := d.byKey[w.Key]; !joined {
			d.hearEarly(w)
			continue
		}
		l := d.links[w.Key]
		news := w.Seen.After(l.lastMessage)
		if l = l.merge(w); news {
			l = d.relinked(w.Key, l)
		}
		d.links[w.Key] = l
		if w.Rival.Place != "" {
			d.rivals[w.Key] = d.rivals[w.Key].merge(w.Rival)
		}
		if d.rivals[w.Key].Place == l.facts.Place { // the rival has got the key
			delete(d.rivals, w.Key)
		}
	}
}

// mostEarly bounds the links of agents whose rows have not arrived.
const mostEarly = 10_000

// hearEarly keeps a report about an agent whose row has not arrived; the caller holds the lock. Another server sends an
// introduction only once, so it must be kept. The rest is repeated with the agent's next heartbeat.
func (d *Directory) hearEarly(w LinkReport) {
	l, kept := d.early[w.Key]
	if !kept && !w.Introduced {
		return
	}
	if !kept && len(d.early) >= mostEarly {
		for key := range d.early { // most likely a removed agent, because rows arrive within seconds
			delete(d.early, key)
			break
		}
	}
	d.early[w.Key] = l.merge(w)
}

// catchUp merges the reports about an agent from before its row arrived; the caller holds the lock.
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

// Shift adds a change of the clock to all stored times.
func (d *Directory) Shift(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started, d.linked = d.started.Add(by), d.linked.Add(by)
	for _, links := range []map[string]agentLink{d.links, d.early} {
		for key, l := range links {
			for _, t := range []*time.Time{&l.lastMessage, &l.lostAt, &l.unlinked, &l.parted, &l.since} {
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

// Unsteady counts the online agents whose clocks are off by more than a bound. It returns how far the worst clock is
// ahead.
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

// tell records that a link changed by a report to this server; met is set if the agent has introduced itself. The
// caller holds the lock.
func (d *Directory) tell(key string, met bool) {
	if d.news != nil {
		d.news[key] = d.news[key] || met
	}
}

func (l agentLink) report(key string, rival Rival) LinkReport {
	return LinkReport{
		Key: key, Seen: l.lastMessage, Lost: l.lostAt, Introduced: l.introduced, Since: l.since, Facts: l.facts,
		Rival: rival, Load: l.load, Rare: l.rare, Trust: l.trust,
	}
}

// merge combines the states of a link on this server and on another.
func (l agentLink) merge(w LinkReport) agentLink {
	if w.Seen.After(l.lastMessage) {
		l.lastMessage, l.rare = w.Seen, w.Rare
		if w.Trust != "" {
			l.trust = w.Trust
		}
		if w.Load != (Load{}) {
			l.load = w.Load
		}
	}
	if !w.Lost.IsZero() && !w.Lost.Before(l.lastMessage) && !w.Lost.Equal(l.lostAt) {
		l = l.lose(w.Lost)
	}
	if w.Introduced && w.Since.After(l.since) && !w.Since.Before(l.lostAt) {
		l.introduced, l.since, l.facts = true, w.Since, w.Facts
	}
	if l.lastMessage.After(l.lostAt) {
		l.lostAt = time.Time{}
	}
	return l
}
