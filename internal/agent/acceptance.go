package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"drover/internal/wire"
)

// acceptance is whether the server has taken in an introduction over the present link. Only then the agent takes
// orders: before that it may be the copy of another host, or not know the key that signs them.
type acceptance struct {
	// place is which host and data directory this is.
	place string

	mu    sync.Mutex
	given chan struct{} // closed when it was; another one for each link
	// said is why it was not given, as it was told last.
	said wire.Stranger
}

func newAcceptance(place string) *acceptance {
	return &acceptance{place: place, given: make(chan struct{})}
}

// refused notes why it is not given, and returns whether that is new.
func (a *acceptance) refused(s wire.Stranger) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.said
	a.said = s
	return before != s
}

func (a *acceptance) give() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = wire.Stranger{}
	select {
	case <-a.given:
	default:
		close(a.given)
	}
}

// withdraw begins the wait anew.
func (a *acceptance) withdraw() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.given:
		a.given = make(chan struct{})
	default:
	}
}

// wait blocks until it is given, for as long as limit at most, and reports whether it was.
func (a *acceptance) wait(ctx context.Context, limit time.Duration) bool {
	a.mu.Lock()
	given := a.given
	a.mu.Unlock()
	select {
	case <-given:
		return true
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-given:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// waitForAcceptance is how long an order waits for it. The server sends an order that was not answered again.
const waitForAcceptance = 2 * time.Second

// estranged takes in that the server takes this agent for a copy of another one.
func (a *Agent) estranged(s wire.Stranger) {
	a.acceptance.withdraw()
	a.confirmation.estrange(s)
	if a.acceptance.refused(s) {
		level := slog.LevelWarn
		if s.Clone {
			level = slog.LevelError
		}
		a.cfg.Log.Log(context.Background(), level, "server rejects the identity of this agent", "reason", s.Reason)
	}
}

// renewed takes in what the server has the agent trust from now on.
func (a *Agent) renewed(sealed []byte) {
	if _, err := a.trust.adopt(sealed); err != nil {
		a.cfg.Log.Error("cannot renew trust", "error", err)
	}
}

// complete adds to a report what may change while the agent runs.
func (a *Agent) complete(r *wire.Report) {
	a.wanted.complete(r)
	r.Trust, r.Place = a.trust.held(), a.acceptance.place
	if r.Hello != nil {
		e := a.trust.current()
		r.Hello.Cloud, r.Hello.IP, r.Hello.ID = e.Cloud, e.IP, e.ID
		r.Hello.Policy = a.policy.Summary()
	}
}
