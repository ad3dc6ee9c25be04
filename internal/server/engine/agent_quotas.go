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

// agentQuotas bounds what each agent can cause by what it tells: how many events it tells, and how many orders are made
// for it. So none takes the database, the history or the queue from the others.
type agentQuotas struct {
	// burst is how many there may be at once, rate how many a second after that.
	burst, rate float64

	mu     sync.Mutex
	all    map[string]agentQuota
	forgot time.Time
}

// agentQuota is that of one agent.
type agentQuota struct {
	// left is how many it could have at once at a time.
	left float64
	at   time.Time
	// stored is how many events were stored since the last trim.
	stored int
}

func newAgentQuotas(burst, rate float64) *agentQuotas {
	return &agentQuotas{burst: burst, rate: rate, all: map[string]agentQuota{}}
}

// take takes n from an agent, or returns when to come again with them.
func (q *agentQuotas) take(agent string, n int, now time.Time) (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.forgot) >= forgetEvery {
		q.forgot = now
		maps.DeleteFunc(q.all, func(_ string, a agentQuota) bool { return q.refilled(a, now) >= q.burst })
	}
	a, known := q.all[agent]
	if !known {
		a = agentQuota{left: q.burst, at: now}
	}
	a.left, a.at = q.refilled(a, now), now
	if missing := float64(n) - a.left; missing > 0 {
		q.all[agent] = a
		return time.Duration(missing / q.rate * float64(time.Second))
	}
	a.left -= float64(n)
	q.all[agent] = a
	return 0
}

func (q *agentQuotas) refilled(a agentQuota, now time.Time) float64 {
	return min(q.burst, a.left+max(0, now.Sub(a.at).Seconds())*q.rate)
}

// stored notes how many were new, and reports whether it is time to trim.
func (q *agentQuotas) stored(agent string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.all[agent]
	a.stored += n
	trim := a.stored >= trimEvery
	if trim {
		a.stored = 0
	}
	q.all[agent] = a
	return trim
}
