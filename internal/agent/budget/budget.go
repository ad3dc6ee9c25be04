// Package budget says which relaunch of a host has its turn. It owns no clock and no goroutine: the caller tells the
// time since boot, and asks again when it is told to.
package budget

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Budget limits the relaunches of the host. What waits takes turns: first the processes that have just been good, then
// those that keep failing, and in both the namespaces one after another. So the crashes of one namespace take no
// other's places, and nobody waits for ever. Operations need no place. Its methods may be called from any goroutine.
type Budget struct {
	// delay comes before every place that is not free at once. Each host has another one, so hosts that lose the same
	// processes at the same time do not relaunch them in step. Order and rate stay.
	delay time.Duration

	mu      sync.Mutex
	limiter *rate.Limiter
	number  uint64
	// good and failing are the numbers of the places that wait, by namespace, in ascending order.
	good, failing map[string][]uint64
}

// Place is a place in a budget.
type Place struct {
	namespace string
	good      bool
	number    uint64
	// delayed says that the delay of the host has been added.
	delayed bool
}

// New returns a budget whose delay is at random, at most spread.
func New(burst int, perSecond float64, spread time.Duration) *Budget {
	b := &Budget{
		limiter: rate.NewLimiter(rate.Limit(perSecond), burst),
		good:    map[string][]uint64{}, failing: map[string][]uint64{},
	}
	if spread > 0 {
		b.delay = rand.N(spread) //nolint:gosec // not a secret
	}
	return b
}

// toTime converts a time since boot for the limiter.
func toTime(sinceBoot time.Duration) time.Time { return time.Unix(0, 0).Add(sinceBoot) }

// queues returns the queues of a place.
func (b *Budget) queues(p *Place) map[string][]uint64 {
	if p.good {
		return b.good
	}
	return b.failing
}

// Enter returns a place that waits. The caller asks for its turn, or leaves.
func (b *Budget) Enter(namespace string, good bool) *Place {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number++
	p := &Place{namespace: namespace, good: good, number: b.number}
	q := b.queues(p)
	q[namespace] = append(q[namespace], p.number)
	return p
}

// Turn returns 0 if it is the turn of a place, which has then left; else when to ask again, at the earliest.
func (b *Budget) Turn(p *Place, now time.Duration) time.Duration {
	// A sum of shares of a second is hardly ever whole.
	const nearly = 1e-6
	b.mu.Lock()
	defer b.mu.Unlock()
	before, first := b.before(p)
	free := b.limiter.TokensAt(toTime(now)) + nearly
	if float64(before+1) <= free {
		b.limiter.ReserveN(toTime(now), 1)
		b.remove(p)
		return 0
	}
	seconds := (float64(before+1) - free) / float64(b.limiter.Limit())
	wait := time.Duration(seconds*float64(time.Second)) + time.Millisecond/10
	if !p.delayed && (!p.good || !first) {
		wait += b.delay
	}
	p.delayed = true
	return wait
}

// Leave gives up a place that waits.
func (b *Budget) Leave(p *Place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(p)
}

// Spare takes a place if one is free now that nobody waits for.
func (b *Budget) Spare(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.good) == 0 && len(b.failing) == 0 && b.limiter.AllowN(toTime(now), 1)
}

// before returns how many places have their turn before one, and whether that is the first of its namespace. The caller
// holds the lock, and the place waits.
func (b *Budget) before(p *Place) (count int, first bool) {
	if !p.good {
		for _, q := range b.good {
			count += len(q)
		}
	}
	all := b.queues(p)
	round, _ := slices.BinarySearch(all[p.namespace], p.number)
	for namespace, q := range all {
		switch {
		case namespace == p.namespace || len(q) <= round:
			count += min(len(q), round)
		case q[round] < p.number:
			count += round + 1
		default:
			count += round
		}
	}
	return count, round == 0
}

// remove takes a place out of its queue. The caller holds the lock.
func (b *Budget) remove(p *Place) {
	all := b.queues(p)
	q := all[p.namespace]
	if i, found := slices.BinarySearch(q, p.number); found {
		q = slices.Delete(q, i, i+1)
	}
	if all[p.namespace] = q; len(q) == 0 {
		delete(all, p.namespace)
	}
}
