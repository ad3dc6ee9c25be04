package enrol

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failuresAtOnce attempts from one address may fail at once, and then one more in each failureEvery.
	failuresAtOnce = 20
	failureEvery   = 3 * time.Second
	// addresses is how many addresses are remembered; beyond that all are forgotten, which allows a few more attempts.
	addresses = 10_000
)

// failures limits the attempts of strangers. A secret is too long to guess; the limit protects the database and the
// audit log.
type failures struct {
	mu     sync.Mutex
	byAddr map[string]*rate.Limiter
}

func newFailures() *failures { return &failures{byAddr: map[string]*rate.Limiter{}} }

// wait returns how long an address has to wait; 0 means that it may try now.
func (f *failures) wait(addr string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byAddr[addr]
	if l == nil {
		return 0
	}
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing * float64(failureEvery))
}

// note counts a failure.
func (f *failures) note(addr string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byAddr[addr]
	if l == nil {
		if len(f.byAddr) >= addresses {
			clear(f.byAddr)
		}
		l = rate.NewLimiter(rate.Every(failureEvery), failuresAtOnce)
		f.byAddr[addr] = l
	}
	l.AllowN(now, 1)
}
