package enrol

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// So many attempts from one address may fail at once, and one more in each interval after that.
	failuresAtOnce = 20
	failureEvery   = 3 * time.Second
	// addresses is how many addresses are remembered; beyond that all are forgotten, which lets a few more attempts
	// through.
	addresses = 10_000
)

// failures bound how often strangers may try. A secret cannot be guessed in any time; what is saved is the database and
// the record.
type failures struct {
	mu     sync.Mutex
	byAddr map[string]*rate.Limiter
}

func newFailures() *failures { return &failures{byAddr: map[string]*rate.Limiter{}} }

// wait returns how long an address has to wait, 0 when it may try now.
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
