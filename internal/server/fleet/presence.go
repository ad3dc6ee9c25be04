package fleet

import (
	"time"

	"drover/internal/server/store"
)

const (
	// silentAfter is how long after its last report an agent counts as online if no server noticed its disconnection.
	// An embedded broker tells of that at once (Compare); external brokers do not.
	// Agents report every five seconds, at least with a heartbeat.
	silentAfter = 13 * time.Second
	// AwayAfter is how long the server waits for such an agent, and how long the agent keeps its names.
	AwayAfter = 30 * time.Second
	// calmAfter is how long after its introduction an agent reports as often as usual: two heartbeats, of which the
	// second tells the load of its host. While a large fleet connects, more of them would take most of the processor.
	// Then the agent reports only each rareBeat, where the server learns from its broker that a connection has ended.
	// rareSilence is silentAfter for such an agent: it shows a host that hangs, if no operation finds that out earlier.
	calmAfter   = 10 * time.Second
	rareBeat    = time.Minute
	rareSilence = 2*rareBeat + 10*time.Second
	// returnTime is how long an operation waits for a disconnected agent: as long as a restart of the agent takes.
	returnTime = 3500 * time.Millisecond
	// SettleTime is how long all agents may take to reconnect after the server has started, or has reconnected to its
	// fabric.
	SettleTime = 15 * time.Second
)

// Presence is the state of an agent's link at one moment.
type Presence struct {
	// Joined is whether the agent is in the register at all.
	Joined bool
	// LastSeen is the time of the agent's last message; zero if there was none since the server's start.
	LastSeen time.Time
	// Away is whether the link is known or presumed to be lost, Vacant whether the loss is certain. Untold is whether
	// the database was restored from a copy, and the agent has not told yet what it has: then it is away, too. So is an
	// agent whose key is claimed from another boot, until the claim is granted or the agent reports.
	Away, Vacant, Untold bool
	// Since is the start of an absence: the earliest moment from which on the agent has been away without a break, and
	// never before the server's start.
	Since time.Time
	// Settling is whether the server has started, or has reconnected to its fabric, less than SettleTime ago.
	Settling bool
	// Linked is when the agent last introduced itself over the present link; zero if it has not.
	Linked time.Time
	// Facts comes from that introduction.
	Facts Facts
	// Trust is the digest of what the agent trusts, as it last reported.
	Trust string
	// Load is how busy the host is; zero if that is unknown or the agent is away.
	Load Load
	// Ahead is how far the clock of the host was ahead of the server's at its last report; less than a second is 0.
	Ahead time.Duration
}

// Load is how busy a host is, in tenths of a percent of the whole machine.
type Load struct{ CPU, Memory int }

// Facts describes a run of an agent. The register does not store it, because every introduction contains it.
type Facts struct {
	Started time.Time
	// Place identifies the host and the data directory; Policy is the local policy of the host. Both may be empty.
	Place, Policy string
	// Wanted is the version of the agent that the last order named, and Upgrade says how the order ended.
	Wanted, Upgrade string
}

// Alive returns the last moment of the agent that is certain, by the clock of its host; zero if none is.
func (p Presence) Alive(now time.Time) time.Time {
	if !p.Away { // as every list of the present, this relies on the link
		// A report that was long under way looks like a clock that is behind.
		return now.Add(max(p.Ahead, 0))
	}
	if p.LastSeen.IsZero() {
		return p.LastSeen
	}
	return p.LastSeen.Add(p.Ahead)
}

// GivenUp reports whether an operation that was requested at the given time, and cannot reach the agent now, has waited
// long enough. The answer is true at once for an agent that never joined or is offline for over 30 s. After a recent
// disconnection both the agent and the operation have returnTime. While the server is settling, GivenUp returns false
// for every agent that has joined.
func (p Presence) GivenUp(asked, now time.Time) bool {
	if !p.Joined || p.Settling {
		return !p.Joined
	}
	away := now.Sub(p.Since)
	return away > AwayAfter || away >= returnTime && now.Sub(asked) >= returnTime
}

// agentLink is the stored state of an agent's link.
type agentLink struct {
	lastMessage, lostAt time.Time
	// unlinked is when this server found no subscription of the agent at its broker; zero while there is one. Other
	// servers find that out by themselves.
	unlinked time.Time
	// parted is unlinked of before, as long as the agent has a subscription again and has not reported.
	parted time.Time
	// introduced is set if the agent has introduced itself to this server since the link was made.
	introduced bool
	since      time.Time
	facts      Facts
	// ahead is how far the clock of the host was ahead at its last report.
	ahead time.Duration
	// trust is the digest of what the agent trusts.
	trust string
	// session and number are the place of the agent's last signed report.
	session string
	number  int64
	load    Load
	// rare is set while the agent has to report only each rareBeat.
	rare bool
}

// silence is how long after its last report the agent counts as online.
func (l agentLink) silence() time.Duration {
	if l.rare {
		return rareSilence
	}
	return silentAfter
}

// vacant reports whether the loss of the link is certain.
func (l agentLink) vacant(now time.Time) bool {
	return l.lastMessage.IsZero() || !l.lostAt.IsZero() || now.Sub(l.lastMessage) > l.silence()+AwayAfter-silentAfter ||
		!l.unlinked.IsZero() && now.Sub(l.unlinked) > AwayAfter
}

// awayFrom returns since when an agent has been away that is known to be away at a time: its absence may have begun
// before, but not before its last message.
func (l agentLink) awayFrom(known time.Time) time.Time {
	if !l.lostAt.IsZero() && !l.lostAt.Before(l.lastMessage) {
		return earlier(l.lostAt, known)
	}
	if !l.unlinked.IsZero() && !l.unlinked.Before(l.lastMessage) {
		known = earlier(l.unlinked, known)
	}
	if known.Sub(l.lastMessage) > l.silence() {
		return l.lastMessage
	}
	return laterOf(l.lastMessage, known)
}

// lose returns the link after a disconnection that is known at a time.
func (l agentLink) lose(at time.Time) agentLink {
	return agentLink{
		lastMessage: l.lastMessage, lostAt: l.awayFrom(at), unlinked: l.unlinked, facts: l.facts,
		ahead: l.ahead, trust: l.trust,
		session: l.session, number: l.number,
	}
}

// InTurn stores the place of a signed report. It reports whether this server has received neither that report nor a
// later one of the same session, because anyone can replay a signed report. The database knows which session is the
// latest.
func (d *Directory) InTurn(key, session string, number int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.links[key]
	if session < l.session {
		return true
	}
	if session != "" && session == l.session && number <= l.number {
		return false
	}
	l.session, l.number = session, number
	d.links[key] = l
	return true
}

// Absence returns what ends with a message of a session at a time: a time without the agent, or the run of the agent
// before. Only an introduction shows that the run has ended. A disconnected agent that returns within returnTime was
// not absent. The end of a run is unknown to a restored database until the agent has told what happened since the copy.
// ok is false if nothing ends, or if nothing is known. Call it before InTurn and Seen.
func (d *Directory) Absence(key, session string, now time.Time) (a store.Absence, ok bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	l := d.links[key]
	if l.lastMessage.IsZero() {
		return a, false
	}
	a = store.Absence{Agent: key, Since: l.lastMessage}
	silence := l.silence()
	if known := laterOf(laterOf(l.lostAt, l.unlinked), l.parted); !known.IsZero() {
		a.Since, silence = l.awayFrom(known), returnTime
	}
	if a.Until = a.Since; now.Sub(a.Since) > silence {
		a.Until = now
	}
	if session != l.session && !d.unsynced(key) { // a restored database does not know the run that has ended
		a.Alive = l.lastMessage.Add(l.ahead)
	}
	return a, a.Until.After(a.Since) || !a.Alive.IsZero()
}

// presence returns the state of a link at one moment. started is the start of the server.
func (l agentLink) presence(joined bool, started, now time.Time) Presence {
	p := Presence{
		Joined: joined, LastSeen: l.lastMessage, Since: started, Linked: l.since, Facts: l.facts, Trust: l.trust,
		Ahead: l.ahead,
	}
	last := l.lastMessage
	if known := laterOf(l.lostAt, l.unlinked); !known.IsZero() {
		last = l.awayFrom(known)
	}
	if last.After(started) {
		p.Since = last
	}
	gone := l.lastMessage.IsZero() || !l.lostAt.IsZero()
	p.Away = gone || !l.unlinked.IsZero() || now.Sub(l.lastMessage) > l.silence()
	p.Vacant = l.vacant(now)
	if !p.Away {
		p.Load = l.load
	}
	return p
}
