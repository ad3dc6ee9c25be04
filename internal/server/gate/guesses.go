package gate

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The limits of wrong secrets: from an address, and from an address for one app. A correct secret always passes, and
// does not count.
const (
	addressGuesses = 100
	addressPause   = time.Second
	appGuesses     = 20
	appPause       = 5 * time.Second
	// mostGuessers is the largest number of remembered addresses; beyond it, the gate forgets all.
	mostGuessers = 20_000
)

// guessKey is an address, or an address with an app.
type guessKey struct{ address, app string }

// guessLimiter counts wrong secrets.
type guessLimiter struct {
	mu    sync.Mutex
	rates map[guessKey]*rate.Limiter
}

func newGuessLimiter() *guessLimiter { return &guessLimiter{rates: map[guessKey]*rate.Limiter{}} }

// wrong counts a wrong secret, and reports whether it exceeds the limit. A caller without an address is on this
// machine.
func (l *guessLimiter) wrong(address, app string, now time.Time) (tooMany bool) {
	if address == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rates) > mostGuessers {
		clear(l.rates)
	}
	all, one := l.rate(guessKey{address: address}, addressGuesses, addressPause),
		l.rate(guessKey{address, app}, appGuesses, appPause)
	if all.TokensAt(now) < 1 || one.TokensAt(now) < 1 {
		return true
	}
	all.AllowN(now, 1)
	one.AllowN(now, 1)
	return false
}

func (l *guessLimiter) rate(who guessKey, burst int, pause time.Duration) *rate.Limiter {
	r := l.rates[who]
	if r == nil {
		r = rate.NewLimiter(rate.Every(pause), burst)
		l.rates[who] = r
	}
	return r
}
