package gate

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"drover/internal/server/access"
)

// Verdict is the decision of the limits on one call.
type Verdict uint8

// The verdicts.
const (
	Within   Verdict = iota // accepted
	TooOften                // over the rate
	TooMany                 // over the number of concurrent calls
)

// Usage is the used part of an app's rate, as the gateway's headers report it. It is zero without a rate.
type Usage struct {
	// Limit is the number of calls at once, Remaining the number of calls left, Reset the time of the next free call.
	Limit, Remaining int
	Reset            time.Duration
}

// Enter counts one call of a principal. If the call is within the limits, the caller must call leave at its end;
// otherwise leave is nil. Enter never blocks.
func (g *Gate) Enter(p access.Principal) (leave func(), u Usage, v Verdict) {
	if p.Limits == (access.Limits{}) {
		return func() {}, Usage{}, Within
	}
	return g.meters.enter(p.App, p.Limits, g.Now())
}

// usageLimiter has a meter for each app with limits that has called since the start.
type usageLimiter struct {
	mu    sync.Mutex
	byApp map[string]*meter
}

type meter struct {
	limits  access.Limits
	bucket  *rate.Limiter // nil without a rate
	running int
}

func newUsageLimiter() *usageLimiter { return &usageLimiter{byApp: map[string]*meter{}} }

func (l *usageLimiter) enter(app string, limits access.Limits, now time.Time) (func(), Usage, Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.byApp[app]
	if m == nil {
		m = &meter{}
		l.byApp[app] = m
	}
	m.adopt(limits, now)
	if limits.Concurrent > 0 && m.running >= limits.Concurrent {
		return nil, m.usage(now), TooMany
	}
	if m.bucket != nil && !m.bucket.AllowN(now, 1) {
		return nil, m.usage(now), TooOften
	}
	m.running++
	leave := sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		m.running--
	})
	return leave, m.usage(now), Within
}

// adopt applies changed limits from now on. Calls already made still count.
func (m *meter) adopt(limits access.Limits, now time.Time) {
	if m.limits == limits {
		return
	}
	m.limits = limits
	burst := max(limits.Burst, 1)
	switch {
	case limits.Rate <= 0:
		m.bucket = nil
	case m.bucket == nil:
		m.bucket = rate.NewLimiter(rate.Limit(limits.Rate), burst)
	default:
		m.bucket.SetLimitAt(now, rate.Limit(limits.Rate))
		m.bucket.SetBurstAt(now, burst)
	}
}

func (m *meter) usage(now time.Time) Usage {
	if m.bucket == nil {
		return Usage{}
	}
	tokens := m.bucket.TokensAt(now)
	u := Usage{Limit: m.bucket.Burst(), Remaining: max(int(math.Floor(tokens)), 0)}
	if u.Remaining == 0 {
		u.Reset = time.Duration(min((1-tokens)/m.limits.Rate, 86400) * float64(time.Second))
	}
	return u
}
