package gate

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A secret that is not remembered has to be hashed, which takes much of a processor. Whoever shows wrong ones may do so this often from an
// address, and from an address for one app. A secret that is right uses nothing of it up.
const (
	addressGuesses = 100
	addressPause   = time.Second
	appGuesses     = 20
	appPause       = 5 * time.Second
	// mostGuessers is how many are remembered; beyond that all are forgotten.
	mostGuessers = 20_000
)

// hashersAtOnce is how many hashes are computed at the same time: guesses leave most of the processors to others.
func hashersAtOnce() int { return max(runtime.GOMAXPROCS(0)/4, 1) }

// guesser is an address, or an address that shows secrets of an app.
type guesser struct{ address, app string }

// guesses counts wrong secrets.
type guesses struct {
	mu    sync.Mutex
	rates map[guesser]*rate.Limiter
}

func newGuesses() *guesses { return &guesses{rates: map[guesser]*rate.Limiter{}} }

// few reports whether an address may guess once more. Whoever has no address is on this machine.
func (g *guesses) few(address, app string, now time.Time) bool {
	if address == "" {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, who := range []guesser{{address: address}, {address, app}} {
		if r := g.rates[who]; r != nil && r.TokensAt(now) < 1 {
			return false
		}
	}
	return true
}

// wrong counts a wrong guess.
func (g *guesses) wrong(address, app string, now time.Time) {
	if address == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.rates) > mostGuessers {
		clear(g.rates)
	}
	g.rate(guesser{address: address}, addressGuesses, addressPause).AllowN(now, 1)
	g.rate(guesser{address, app}, appGuesses, appPause).AllowN(now, 1)
}

func (g *guesses) rate(who guesser, burst int, pause time.Duration) *rate.Limiter {
	r := g.rates[who]
	if r == nil {
		r = rate.NewLimiter(rate.Every(pause), burst)
		g.rates[who] = r
	}
	return r
}
