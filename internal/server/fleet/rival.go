package fleet

import "time"

// Rival is a second host that uses the key of an agent.
type Rival struct {
	// Place and Name come from its reports, and Session is the session of its run.
	Place, Name, Session string
	// Since is when the rival came, and Last the time of its last message.
	Since, Last time.Time
	// Proven is when the host that owns the key sealed its last report; zero means not since the rival came.
	Proven time.Time
}

// Certain reports whether it is certain that two hosts use the key.
func (r Rival) Certain() bool { return !r.Proven.IsZero() }

// there reports whether the rival of the host at a place is present now.
func (r Rival) there(holder string, now time.Time) bool {
	return r.Place != "" && r.Place != holder && now.Sub(r.Last) <= AwayAfter
}

// goesOn reports whether a claim continues the rival's earlier claims: a host that waits for a key repeats its claim
// every few seconds.
func (r Rival) goesOn(place string, heard time.Time) bool {
	return r.Place == place && heard.Sub(r.Last).Abs() <= holdFor
}

// merge combines the reports about the rival on this server and on another.
func (r Rival) merge(other Rival) Rival {
	if other.Last.After(r.Last) {
		r, other = other, r
	}
	if !other.goesOn(r.Place, r.Last) {
		return r
	}
	r.Since = earlier(r.Since, other.Since)
	r.Proven = laterOf(r.Proven, other.Proven)
	return r
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
