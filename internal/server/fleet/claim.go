package fleet

import "time"

// holdFor is how long a host keeps its key for itself after its last word, and after its last proof where another one
// wants it. Agents report every 5 s.
const holdFor = 12 * time.Second

// Claim is what comes of an agent's saying that it has a key.
type Claim uint8

// The answers.
const (
	// Granted: it is the one that the key belongs to.
	Granted Claim = iota + 1
	// Unsettled: another host used the key a moment ago. If that one does not prove that it is there it has gone, and
	// the key is granted.
	Unsettled
	// Denied: another host uses the key, and has proven that it is there since this one came. One of the two is a copy.
	Denied
)

// Claimant is what a report says of where it comes from.
type Claimant struct {
	// Place and Name are those of the host, Session that of the agent's run.
	Place, Name, Session string
	// Introduces says that it is an introduction: only that may claim a key which belongs to another host.
	Introduces bool
	// Proof is the Challenge that it has signed; empty for none.
	Proof string
}

// Claim judges whether a report of an agent comes from the host that the key belongs to, by its place. It returns the
// rival: where it is granted, the one against whom the host is to prove that it is there, if there is one, and whether
// that has just become certain.
//
// That a report is of that place is not proof enough, as anybody on the way can make up a heartbeat. So the key goes
// over when nothing was heard for some time, or when the rival has been there for as long and nothing was proven.
func (d *Directory) Claim(key string, by Claimant, now time.Time) (c Claim, r Rival, news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	holder, seen := d.holder(key, now)
	r = d.rivals[key]
	if by.Place == "" || holder == "" || by.Place == holder {
		return d.holds(key, r, by, now)
	}
	if !by.Introduces {
		return Unsettled, Rival{}, false
	}
	// of an earlier run than the one that is there
	if r.there(holder, now) && r.Place != by.Place && by.Session < r.Session {
		return Unsettled, Rival{}, false
	}
	if !r.goesOn(by.Place, now) {
		r = Rival{Place: by.Place, Since: now}
	}
	r.Name, r.Session, r.Last = by.Name, by.Session, now
	if now.Sub(seen) > holdFor || now.Sub(later(r.Since, r.Proven)) > holdFor { // it has gone
		delete(d.rivals, key)
		return Granted, Rival{}, false
	}
	d.rivals[key] = r
	d.tell(key, false)
	if r.Certain() {
		return Denied, r, false
	}
	return Unsettled, r, false
}

// holds takes a word of the host that the key belongs to, under the lock.
func (d *Directory) holds(key string, r Rival, by Claimant, now time.Time) (c Claim, against Rival, news bool) {
	if !r.there(by.Place, now) {
		return Granted, Rival{}, false
	}
	if by.Proof == r.Challenge() {
		news = !r.Certain()
		r.Proven = now
		d.rivals[key] = r
		d.tell(key, false)
	}
	return Granted, r, news
}

// holder returns where the host is that a key belongs to, and when that was heard last, under the lock; empty where it
// is not known.
func (d *Directory) holder(key string, now time.Time) (place string, seen time.Time) {
	l := d.links[key]
	if l.facts.Place == "" && now.Sub(d.started) <= AwayAfter { // it may be on its way back
		return d.byKey[key].Place, d.started
	}
	return l.facts.Place, l.seen
}

// Elsewhere reports whether a key belongs to a host at another place, as far as that is known.
func (d *Directory) Elsewhere(key, place string, now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	holder, _ := d.holder(key, now)
	return place != "" && holder != "" && place != holder
}

// Rival returns the second host that uses the key of an agent, if one is there now.
func (d *Directory) Rival(key string, now time.Time) (Rival, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	r := d.rivals[key]
	return r, r.Certain() && r.there(d.links[key].facts.Place, now)
}

// Rivals counts the agents whose keys a second host uses now.
func (d *Directory) Rivals(now time.Time) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for key, r := range d.rivals {
		if r.Certain() && r.there(d.links[key].facts.Place, now) {
			n++
		}
	}
	return n
}

// Remark notes what keeps an agent that is there from being of use, for people; it counts until the agent introduces
// itself.
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
