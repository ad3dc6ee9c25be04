package fleet

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// mostUnregistered bounds how many unregistered agents are remembered. When there are as many, further ones are
	// left out: a proxy can invent any number of keys, and must not push out an agent that is there.
	mostUnregistered = 1000
	// unregisteredFor is how long an unregistered agent is remembered after its last report: it repeats its report
	// every few seconds.
	unregisteredFor = 5 * time.Minute
)

// Unregistered remembers the agents that report in vain because the register does not have them, as after a restore of
// the database. The servers have no key to open such a report: that the agent has sent it is known as far as the broker
// or the proxy lets agents publish under their own keys alone. The zero value is ready to use, and it is safe for
// concurrent use.
type Unregistered struct {
	mu     sync.Mutex
	agents map[string]UnregisteredAgent
	pruned time.Time
}

// UnregisteredAgent is an agent that reports in vain, and the times of its first and last report.
type UnregisteredAgent struct {
	Key         string
	Area        int
	First, Last time.Time
}

// Reported notes a report in vain.
func (u *Unregistered) Reported(area int, key string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a, known := u.agents[key]
	if !known {
		if len(u.agents) >= mostUnregistered && now.Sub(u.pruned) >= time.Second {
			u.prune(now)
		}
		if len(u.agents) >= mostUnregistered {
			return
		}
		a = UnregisteredAgent{Key: key, First: now}
	}
	if u.agents == nil {
		u.agents = map[string]UnregisteredAgent{}
	}
	a.Area, a.Last = area, now
	u.agents[key] = a
}

// Joined forgets an agent, because the register has it now.
func (u *Unregistered) Joined(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.agents, key)
}

// List returns the agents that have reported in vain lately, those that began first at the front.
func (u *Unregistered) List(now time.Time) []UnregisteredAgent {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.prune(now)
	return slices.SortedFunc(maps.Values(u.agents), func(a, b UnregisteredAgent) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Key, b.Key))
	})
}

// prune forgets the agents that report no more; the caller holds the lock.
func (u *Unregistered) prune(now time.Time) {
	u.pruned = now
	maps.DeleteFunc(u.agents, func(_ string, a UnregisteredAgent) bool { return now.Sub(a.Last) > unregisteredFor })
}
