package gate

import (
	"net/netip"
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
	// network is how many bits of an IPv6 address count: one machine has all addresses that begin with them.
	network = 64
)

// Failures limits the attempts of strangers who join or sign in: 20 attempts of an address may fail at once, and then
// one in 3 s. A secret is too long to guess; the limit protects the database and the audit log. The IPv6 addresses of
// one /64 network count as one address. A text that is no address, such as a name, counts as it is, and an empty one
// has no limit. Failures is safe for concurrent use.
type Failures struct {
	atOnce int
	every  time.Duration

	mu     sync.Mutex
	byAddr map[string]*rate.Limiter
}

// NewFailures returns a limit without any failures.
func NewFailures() *Failures { return newFailures(failuresAtOnce, failureEvery) }

func newFailures(atOnce int, every time.Duration) *Failures {
	return &Failures{atOnce: atOnce, every: every, byAddr: map[string]*rate.Limiter{}}
}

// networkOf returns the network of an IPv6 address, and any other text as it is.
func networkOf(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil || !ip.Is6() || ip.Is4In6() {
		return addr
	}
	p, _ := ip.Prefix(network) // an IPv6 address has more bits
	return p.String()
}

// Wait returns how long an address has to wait; 0 means that it may try now.
func (f *Failures) Wait(addr string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byAddr[networkOf(addr)]
	if l == nil {
		return 0
	}
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing * float64(f.every))
}

// Note counts a failure.
func (f *Failures) Note(addr string, now time.Time) {
	if addr == "" {
		return
	}
	addr = networkOf(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byAddr[addr]
	if l == nil {
		if len(f.byAddr) >= addresses {
			clear(f.byAddr)
		}
		l = rate.NewLimiter(rate.Every(f.every), f.atOnce)
		f.byAddr[addr] = l
	}
	l.AllowN(now, 1)
}
