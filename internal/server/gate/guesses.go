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

// guesser is an address, or an address with an app.
type guesser struct{ address, app string }

// guesses counts wrong secrets.
type guesses struct {
	mu    sync.Mutex
	rates map[guesser]*rate.Limiter
}

func newGuesses() *guesses { return &guesses{rates: map[guesser]*rate.Limiter{}} }

// wrong counts a wrong secret, and reports whether it exceeds the limit. A caller without an address is on this
// machine.
func (g *guesses) wrong(address, app string, now time.Time) (tooMany bool) {
	if address == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.rates) > mostGuessers {
		clear(g.rates)
	}
	all, one := g.rate(guesser{address: address}, addressGuesses, addressPause),
		g.rate(guesser{address, app}, appGuesses, appPause)
	if all.TokensAt(now) < 1 || one.TokensAt(now) < 1 {
		return true
	}
	all.AllowN(now, 1)
	one.AllowN(now, 1)
	return false
}

func (g *guesses) rate(who guesser, burst int, pause time.Duration) *rate.Limiter {
	r := g.rates[who]
	if r == nil {
		r = rate.NewLimiter(rate.Every(pause), burst)
		g.rates[who] = r
	}
	return r
}
