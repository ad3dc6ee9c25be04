package gate

import "time"

// The limits of wrong secrets: from an address, and from an address for one app. A correct secret always passes, and
// does not count.
const (
	addressGuesses = 100
	addressPause   = time.Second
	appGuesses     = 20
	appPause       = 5 * time.Second
)

// guessLimiter counts wrong secrets.
type guessLimiter struct{ all, ofApp *Failures }

func newGuessLimiter() *guessLimiter {
	return &guessLimiter{newFailures(addressGuesses, addressPause), newFailures(appGuesses, appPause)}
}

// wrong counts a wrong secret, and reports whether it exceeds the limit. A caller without an address is on this
// machine.
func (l *guessLimiter) wrong(address, app string, now time.Time) (tooMany bool) {
	if address == "" {
		return false
	}
	one := networkOf(address) + " " + app
	if l.all.Wait(address, now) > 0 || l.ofApp.Wait(one, now) > 0 {
		return true
	}
	l.all.Note(address, now)
	l.ofApp.Note(one, now)
	return false
}
