package supervisor

import (
	"time"

	"golang.org/x/time/rate"
)

// budget is how many relaunches the host bears. Places in it are given out in the order in which they are asked for, so
// that nobody waits for ever; an operation needs none.
type budget struct{ limiter *rate.Limiter }

func newBudget(burst int, perSecond float64) *budget {
	return &budget{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// moment makes a time since boot one that the limiter can reckon with.
func moment(sinceBoot time.Duration) time.Time { return time.Unix(0, 0).Add(sinceBoot) }

// reserve takes a place and returns how long to wait for it, and how to give it back unused.
func (b *budget) reserve(now time.Duration) (wait time.Duration, giveBack func(now time.Duration)) {
	place := b.limiter.ReserveN(moment(now), 1)
	return place.DelayFrom(moment(now)), func(now time.Duration) { place.CancelAt(moment(now)) }
}

// spare takes a place if there is one now.
func (b *budget) spare(now time.Duration) bool { return b.limiter.AllowN(moment(now), 1) }
