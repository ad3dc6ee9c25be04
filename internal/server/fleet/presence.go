package fleet

import "time"

const (
	// silentAfter is how long an agent that was never heard to leave is shown as present after its last word. Agents
	// report every five seconds, if only to say that they are there.
	silentAfter = 13 * time.Second
	// AwayAfter is how long such an agent is waited for, and keeps its names.
	AwayAfter = 30 * time.Second
	// returnTime is what an agent gets to come back before an operation gives up on it: as long as a restart of it
	// takes.
	returnTime = 3500 * time.Millisecond
	// SettleTime is what all agents get to come back after the server was started, or has found its fabric again.
	SettleTime = 15 * time.Second
)

// Presence is what the server knows of an agent's link at one moment.
type Presence struct {
	// Joined is whether the agent is in the register at all.
	Joined bool
	// LastSeen is when it was last heard; zero when that was not since the server's start.
	LastSeen time.Time
	// Away is whether the link is known or presumed to be lost, Vacant whether that is beyond doubt.
	Away, Vacant bool
	// Since is the moment from which an absence counts: when the link was lost, else when the agent was last heard, and
	// never before the server's start.
	Since time.Time
	// Settling is whether the server was started, or has found its fabric again, less than SettleTime ago.
	Settling bool
	// Linked is when the agent last introduced itself over the present link; zero while it has not.
	Linked time.Time
	// Facts is what it said of itself then.
	Facts Facts
	// Trust names what it goes by, as it said to this server last.
	Trust string
}

// Facts is what an agent says of itself and its machine. The register does not keep it: every introduction brings it
// anew.
type Facts struct {
	Started time.Time
	OS      string
	Arch    string
	CPUs    int
	Memory  int64 // bytes
	// Place tells its host and data directory from every other; Policy is what its owner lets be done there. Both may
	// be empty.
	Place, Policy string
}

// GivenUp reports whether an operation that was asked for at the given time, and now finds nobody at the agent's end,
// has waited long enough. An agent that never joined, or has been away for over 30 s, is not waited for at all. One
// that left only lately has returnTime to come back, and so has the operation; while the server is settling nobody is
// given up.
func (p Presence) GivenUp(asked, now time.Time) bool {
	if !p.Joined || p.Settling {
		return !p.Joined
	}
	away := now.Sub(p.Since)
	return away > AwayAfter || away >= returnTime && now.Sub(asked) >= returnTime
}

// agentLink is what is remembered of an agent's link.
type agentLink struct {
	seen, lost time.Time
	// introduced is whether the agent has told this server what it is since the link was made.
	introduced bool
	since      time.Time
	facts      Facts
	// ahead is how far the clock of the host was ahead when it was last heard.
	ahead time.Duration
	// trust names what it goes by.
	trust string
	// session and number are the place of the last report that it has signed.
	session string
	number  int64
}

// lose returns the link as it is once it is found to be gone.
func (l agentLink) lose(at time.Time) agentLink {
	return agentLink{
		seen: l.seen, lost: at, facts: l.facts, ahead: l.ahead, trust: l.trust, session: l.session,
		number: l.number,
	}
}

// InTurn notes the place of a report that the agent has signed, and reports whether this server has had neither that
// report nor a later one of the same session: what is signed can be sent again by anybody. Which session is the latest
// is known to the database.
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

// presence judges a link at one moment. Started is when the server was.
func (l agentLink) presence(joined bool, started, now time.Time) Presence {
	p := Presence{Joined: joined, LastSeen: l.seen, Since: started, Linked: l.since, Facts: l.facts, Trust: l.trust}
	last := l.seen
	if l.lost.After(last) {
		last = l.lost
	}
	if last.After(started) {
		p.Since = last
	}
	gone := l.seen.IsZero() || !l.lost.IsZero()
	p.Away, p.Vacant = gone || now.Sub(l.seen) > silentAfter, gone || now.Sub(l.seen) > AwayAfter
	return p
}
