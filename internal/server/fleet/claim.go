package fleet

import (
	"time"

	"drover/internal/frame"
)

// holdFor is how long a host keeps its key after its last report, or after it has sealed its last one if another host
// claims the key. Agents report every 5 s, or rarely and when they are pinged.
const holdFor = 12 * time.Second

// holdFromCopy is how long a host keeps its key after its last report if another host is known to be a copy: an agent
// may be away for an upgrade, a reboot or a repair, and its copy must not take its place meanwhile.
const holdFromCopy = time.Hour

// Claim is the decision about an agent's claim to a key.
type Claim uint8

// The decisions.
const (
	// Granted: the key belongs to the claimant.
	Granted Claim = iota + 1
	// Unsettled: another host used the key recently. If that host reports no more, it is gone and the claimant gets the
	// key.
	Unsettled
	// Denied: another host uses the key, and has sealed a report since this one claimed the key. One of the two is a
	// copy.
	Denied
)

// Claimant is the origin of a report, as the report describes it.
type Claimant struct {
	// Place and Name belong to the host, Session to the agent's run.
	Place, Name, Session string
	// Introduces is set for an introduction: only an introduction may claim a key that belongs to another host.
	Introduces bool
	// Sealed is when the host sealed the report, by the clock of the servers; zero if it did not know that clock.
	Sealed time.Time
}

// Claim decides, by the place of a report, whether it comes from the host that owns the agent's key. It returns the
// rival, if there is one; news is set if the report has just made the copy certain.
//
// Somebody on the way can hold a report back and deliver it after its host has gone. So only a report that was sealed
// after the rival came shows that there are two hosts. The key changes hands after holdFor without a report of its
// host, or after the rival was there for holdFor without a report that was sealed meanwhile. A rival that is certain to
// be a copy waits for holdFromCopy instead.
//
// The silence of a host that reports rarely says nothing: the caller pings it (Rare), and a host that is there reports.
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
	// an earlier run than the present rival's
	if r.there(holder, now) && r.Place != by.Place && by.Session < r.Session {
		return Unsettled, Rival{}, false
	}
	if !r.goesOn(by.Place, now) {
		r = Rival{Place: by.Place, Since: now}
	}
	r.Name, r.Session, r.Last = by.Name, by.Session, now
	hold := holdFor
	if r.Certain() {
		hold = holdFromCopy
	}
	silent := !d.links[key].rare && now.Sub(seen) > hold
	if silent || now.Sub(laterOf(r.Since, r.Proven)) > hold { // the holder is gone
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

// holds handles a report of the host that owns the key; the caller holds the lock.
func (d *Directory) holds(key string, r Rival, by Claimant, now time.Time) (c Claim, against Rival, news bool) {
	if !r.there(by.Place, now) {
		return Granted, Rival{}, false
	}
	known, ahead := laterOf(r.Since.Add(frame.ServersApart), r.Proven), now.Add(frame.ServersApart)
	if by.Sealed.After(known) && !by.Sealed.After(ahead) {
		news = !r.Certain()
		r.Proven = by.Sealed
		d.rivals[key] = r
		d.tell(key, false)
	}
	return Granted, r, news
}

// holder returns the place of the host that owns a key, and the time of its last report; the place is empty if it is
// unknown. The caller holds the lock.
func (d *Directory) holder(key string, now time.Time) (place string, seen time.Time) {
	l := d.links[key]
	if l.facts.Place == "" && now.Sub(d.started) <= AwayAfter { // it may be reconnecting
		return d.byKey[key].Place, d.started
	}
	return l.facts.Place, l.lastMessage
}

// Elsewhere reports whether a key belongs to a host at another place, as far as that is known.
func (d *Directory) Elsewhere(key, place string, now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	holder, _ := d.holder(key, now)
	return place != "" && holder != "" && place != holder
}

// displaced reports whether the key of an agent is claimed from another place, and the agent has been silent since: the
// host has most likely rebooted, and what the agent told before is of the boot before. The caller holds the lock.
func (d *Directory) displaced(key string, now time.Time) bool {
	l, r := d.links[key], d.rivals[key]
	return r.there(l.facts.Place, now) && !r.Certain() && !l.lastMessage.After(r.Since)
}

// Rival returns the second host that uses the key of an agent, if it is present now.
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

// Remark stores the problem that makes an online agent unusable, for operators. The remark lasts until the agent
// introduces itself.
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

// Remarked returns the last remark.
func (d *Directory) Remarked(key string) string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.remarks[key]
}
