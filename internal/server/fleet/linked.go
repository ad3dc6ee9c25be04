package fleet

import (
	"time"

	"drover/internal/server/store"
)

// Compare compares the links with the subscriptions at the server's broker, at a time: an agent without a subscription
// is offline from then on, until it has one again or reports. listens reports whether an agent has a subscription; it
// is called without a lock. all compares all links; without it Compare looks only at the agents that have reported
// since it found none of their subscriptions. Compare returns how many agents it found newly connected or disconnected.
//
// A subscription proves nothing: whoever has the right to the subject can make one. So it never brings an agent online
// that does not report.
func (d *Directory) Compare(all bool, now time.Time, listens func(a store.Agent) bool) (found int) {
	differ := map[string]bool{} // whether there is a subscription, where that is news
	for _, a := range d.toCompare(all) {
		if is := listens(a.Agent); is == a.unlinked {
			differ[a.Key] = is
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, is := range differ {
		l, known := d.links[key]
		switch {
		case !known:
			continue
		case is:
			l.parted, l.unlinked = l.unlinked, time.Time{}
		case l.lastMessage.After(now): // it has reported meanwhile, perhaps over another link
			d.doubtful[key] = true
			continue
		default:
			l.unlinked = now
		}
		d.links[key] = l
		found++
	}
	return found
}

// linkedAgent is an agent, and whether it had no subscription at the last comparison.
type linkedAgent struct {
	store.Agent
	unlinked bool
}

// toCompare returns the agents whose links Compare has to look at.
func (d *Directory) toCompare(all bool) (agents []linkedAgent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.compared = true
	take := func(key string) {
		if l := d.links[key]; !l.lastMessage.IsZero() {
			agents = append(agents, linkedAgent{d.byKey[key], !l.unlinked.IsZero()})
		}
	}
	if all {
		for key := range d.byKey {
			take(key)
		}
	} else {
		for key := range d.doubtful {
			take(key)
		}
	}
	clear(d.doubtful)
	return agents
}

// relinked returns the link of an agent that has reported. The report may be older than the loss of the link, so
// Compare looks again. The caller holds the lock.
func (d *Directory) relinked(key string, l agentLink) agentLink {
	if !l.unlinked.IsZero() {
		l.unlinked = time.Time{}
		d.doubtful[key] = true
	}
	l.parted = time.Time{}
	return l
}

// Rare reports whether an agent has to report only rarely now.
func (d *Directory) Rare(key string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.links[key].rare
}

// Beat returns how often an agent that has just reported must report from now on; 0 is as often as usual. An agent may
// report rarely if Compare shows the end of its connection, once it has been connected for a while, and unless a second
// host claims its key.
func (d *Directory) Beat(key string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, known := d.links[key]
	if !known {
		return 0
	}
	l.rare = d.compared && l.introduced && now.Sub(l.since) >= calmAfter && d.rivals[key].Place == ""
	d.links[key] = l
	if !l.rare {
		return 0
	}
	return rareBeat
}
