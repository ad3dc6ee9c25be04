package fleet

import "time"

// holdFor is how long a host keeps its key for itself after its last word. Agents report every 5 s.
const holdFor = 12 * time.Second

// Claim is what comes of an agent's saying that it has a key.
type Claim uint8

// The answers.
const (
	// Granted: it is the one that the key belongs to.
	Granted Claim = iota + 1
	// Unsettled: another host used the key a moment ago. If that one is not heard any more it has gone, and the key is granted.
	Unsettled
	// Denied: another host uses the key, and has been heard since this one came. One of the two is a copy.
	Denied
)

// Rival is a second host that uses the key of an agent.
type Rival struct {
	// Place and Name are what it says of itself.
	Place, Name string
	// Since is when it came, Last when it was heard last.
	Since, Last time.Time
	// Certain says that the agent was heard since it came.
	Certain bool
}

// Claim judges whether a report of an agent comes from the host that the key belongs to, by its place. Introduces says that it is an
// introduction, with the name that the host has: only that may take over a key which nobody has used for some time. It returns the rival
// where it is not granted, and whether that has just become certain.
func (d *Directory) Claim(key, place, name string, introduces bool, now time.Time) (c Claim, r Rival, news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.links[key]
	holder := l.facts.Place
	if holder == "" && now.Sub(d.started) <= AwayAfter {
		holder = d.byKey[key].Place // it may be on its way back
		l.seen = d.started
	}
	if place == "" || holder == "" || place == holder {
		return Granted, Rival{}, false
	}
	if now.Sub(l.seen) > holdFor && introduces { // it has gone
		delete(d.rivals, key)
		return Granted, Rival{}, false
	}
	r = d.rivals[key]
	if r.Place != place {
		r = Rival{Place: place, Name: name, Since: now}
	}
	if name != "" {
		r.Name = name
	}
	r.Last = now
	if certain := l.seen.After(r.Since); certain && !r.Certain {
		r.Certain, news = true, true
	}
	d.rivals[key] = r
	if !r.Certain {
		return Unsettled, r, false
	}
	return Denied, r, news
}

// Rival returns the second host that uses the key of an agent, if one is there now.
func (d *Directory) Rival(key string, now time.Time) (Rival, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	r, ok := d.rivals[key]
	return r, ok && r.Certain && now.Sub(r.Last) <= AwayAfter
}

// Rivals counts the agents whose keys a second host uses now.
func (d *Directory) Rivals(now time.Time) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for _, r := range d.rivals {
		if r.Certain && now.Sub(r.Last) <= AwayAfter {
			n++
		}
	}
	return n
}

// Remark notes what keeps an agent that is there from being of use, for people; it counts until the agent introduces itself.
func (d *Directory) Remark(key, text string) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	news = d.remarks[key] != text
	if text == "" {
		delete(d.remarks, key)
	} else {
		d.remarks[key] = text
	}
	return news
}

// Remarked returns what was noted last.
func (d *Directory) Remarked(key string) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.remarks[key]
}
