package engine

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	// mostOfAgent is how many events of one agent are kept.
	mostOfAgent = 10_000
	// trimEvery is how many of them are stored between two looks at how many there are.
	trimEvery = 1000
	// An agent may tell so many events at once, as one does that was away for long, and so many a second after that.
	eventBurst = 20_000
	eventRate  = 100
	// Process groups of so many namespaces may be restored at once on one host, and so many a second after that.
	restoreBurst = 2 * maxRestored
	restoreRate  = 1
	// forgetEvery is how often those are forgotten that may tell as many as any again.
	forgetEvery = time.Minute
)

// tooManyError refuses events of an agent that has told too many.
type tooManyError struct{ wait time.Duration }

// Error returns what the agent is told.
func (e *tooManyError) Error() string {
	return fmt.Sprintf("this host has reported too many events: the server accepts more in %.1f s", e.wait.Seconds())
}

// shares bounds what each agent can cause by what it tells: how many events it tells, and how many orders are made for
// it. So none takes the database, the history or the queue from the others.
type shares struct {
	// burst is how many there may be at once, rate how many a second after that.
	burst, rate float64

	mu     sync.Mutex
	all    map[string]share
	forgot time.Time
}

// share is that of one agent.
type share struct {
	// left is how many it could have at once at a time.
	left float64
	at   time.Time
	// stored is how many events were stored since the last trim.
	stored int
}

func newShares(burst, rate float64) *shares {
	return &shares{burst: burst, rate: rate, all: map[string]share{}}
}

// take takes n from an agent, or returns when to come again with them.
func (s *shares) take(agent string, n int, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.forgot) >= forgetEvery {
		s.forgot = now
		maps.DeleteFunc(s.all, func(_ string, a share) bool { return s.refilled(a, now) >= s.burst })
	}
	a, known := s.all[agent]
	if !known {
		a = share{left: s.burst, at: now}
	}
	a.left, a.at = s.refilled(a, now), now
	if missing := float64(n) - a.left; missing > 0 {
		s.all[agent] = a
		return time.Duration(missing / s.rate * float64(time.Second))
	}
	a.left -= float64(n)
	s.all[agent] = a
	return 0
}

func (s *shares) refilled(a share, now time.Time) float64 {
	return min(s.burst, a.left+max(0, now.Sub(a.at).Seconds())*s.rate)
}

// stored notes how many were new, and reports whether it is time to trim.
func (s *shares) stored(agent string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[agent]
	a.stored += n
	trim := a.stored >= trimEvery
	if trim {
		a.stored = 0
	}
	s.all[agent] = a
	return trim
}
