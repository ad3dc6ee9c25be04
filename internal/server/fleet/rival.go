package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Rival is a second host that uses the key of an agent.
type Rival struct {
	// Place and Name are what it says of itself, Session that of its run.
	Place, Name, Session string
	// Since is when it came, Last when it was heard last.
	Since, Last time.Time
	// Proven is when the host that the key belongs to has last proven that it is there, too; zero: not since the rival
	// came.
	Proven time.Time
}

// Certain reports whether there are two hosts for certain.
func (r Rival) Certain() bool { return !r.Proven.IsZero() }

// Challenge is what the host that the key belongs to has to sign to prove that it is there. Nobody could know it before
// the rival came, so nothing that was signed before will do.
func (r Rival) Challenge() string {
	sum := sha256.Sum256([]byte("drover rival 1\n" + r.Place + "\n" + r.Session))
	return hex.EncodeToString(sum[:16])
}

// there reports whether it is a rival of the host at a place, now.
func (r Rival) there(holder string, now time.Time) bool {
	return r.Place != "" && r.Place != holder && now.Sub(r.Last) <= AwayAfter
}

// goesOn reports whether it is the same visit, one more time: whoever waits for a key comes again every few seconds.
func (r Rival) goesOn(place string, heard time.Time) bool {
	return r.Place == place && heard.Sub(r.Last).Abs() <= holdFor
}

// merge returns what is known of the rival here and elsewhere.
func (r Rival) merge(other Rival) Rival {
	if other.Last.After(r.Last) {
		r, other = other, r
	}
	if !other.goesOn(r.Place, r.Last) {
		return r
	}
	r.Since = earlier(r.Since, other.Since)
	r.Proven = later(r.Proven, other.Proven)
	return r
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
