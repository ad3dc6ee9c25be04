package engine

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

const (
	// mostOfAgent is the number of events of one agent that the store keeps.
	mostOfAgent = 10_000
	// trimEvery is the number of stored events after which the engine trims the agent's events.
	trimEvery = 1000
	// An agent may report eventBurst events at once, for example after a long absence, and then eventRate events a
	// second.
	eventBurst = 20_000
	eventRate  = 100
	// The engine may restore the process groups of restoreBurst namespaces at once on one host, and then restoreRate a
	// second.
	restoreBurst = 2 * maxRestored
	restoreRate  = 1
	// forgetEvery is the interval at which full quotas are deleted.
	forgetEvery = time.Minute
)

// tooManyError rejects events of an agent that has reported too many.
type tooManyError struct{ wait time.Duration }

// Error returns the text for the agent.
func (e *tooManyError) Error() string {
	return fmt.Sprintf("this host has reported too many events: the server accepts more in %.1f s", e.wait.Seconds())
}

// agentQuotas bounds what the reports of each agent can cause: its events, or the orders that the engine creates for
// it. So no agent takes the database, the history or the queue from the others.
type agentQuotas struct {
	// burst is the quota of an agent that was idle; rate is its growth per second.
	burst, rate float64

	mu     sync.Mutex
	all    map[string]agentQuota
	forgot time.Time
}

// agentQuota is the quota of one agent.
type agentQuota struct {
	// remaining is the quota at the time at.
	remaining float64
	at        time.Time
	// storedSinceTrim is the number of stored events since the last trim.
	storedSinceTrim int
}

func newAgentQuotas(burst, rate float64) *agentQuotas {
	return &agentQuotas{burst: burst, rate: rate, all: map[string]agentQuota{}}
}

// take takes n from an agent's quota, or returns how long the agent must wait for n.
func (q *agentQuotas) take(agent string, n int, now time.Time) (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.forgot) >= forgetEvery {
		q.forgot = now
		maps.DeleteFunc(q.all, func(_ string, a agentQuota) bool { return q.refilled(a, now) >= q.burst })
	}
	a, known := q.all[agent]
	if !known {
		a = agentQuota{remaining: q.burst, at: now}
	}
	a.remaining, a.at = q.refilled(a, now), now
	if missing := float64(n) - a.remaining; missing > 0 {
		q.all[agent] = a
		return time.Duration(missing / q.rate * float64(time.Second))
	}
	a.remaining -= float64(n)
	q.all[agent] = a
	return 0
}

func (q *agentQuotas) refilled(a agentQuota, now time.Time) float64 {
	return min(q.burst, a.remaining+max(0, now.Sub(a.at).Seconds())*q.rate)
}

// addStored adds n new events, and reports whether it is time to trim.
func (q *agentQuotas) addStored(agent string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.all[agent]
	a.storedSinceTrim += n
	trim := a.storedSinceTrim >= trimEvery
	if trim {
		a.storedSinceTrim = 0
	}
	q.all[agent] = a
	return trim
}
