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

	mu       sync.Mutex
	accepted chan struct{} // closed when it was; another one for each link
	// lastReason is why it was not given, as it was told last.
	lastReason wire.Stranger
}

func newAcceptance(place string) *acceptance {
	return &acceptance{place: place, accepted: make(chan struct{})}
}

// noteRejection notes why it is not given, and returns whether that is new.
func (a *acceptance) noteRejection(s wire.Stranger) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.lastReason
	a.lastReason = s
	return before != s
}

func (a *acceptance) accept() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastReason = wire.Stranger{}
	select {
	case <-a.accepted:
	default:
		close(a.accepted)
	}
}

// reset begins the wait anew.
func (a *acceptance) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.accepted:
		a.accepted = make(chan struct{})
	default:
	}
}

// wait blocks until it is given, for as long as limit at most, and reports whether it was.
func (a *acceptance) wait(ctx context.Context, limit time.Duration) bool {
	a.mu.Lock()
	given := a.accepted
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

// identityRejected takes in that the server takes this agent for a copy of another one.
func (a *Agent) identityRejected(s wire.Stranger) {
	a.acceptance.reset()
	a.confirmation.noteRejection(s)
	if a.acceptance.noteRejection(s) {
		level := slog.LevelWarn
		if s.Clone {
			level = slog.LevelError
		}
		a.cfg.Log.Log(context.Background(), level, "server rejects the identity of this agent", "reason", s.Reason)
	}
}

// renewTrust takes in what the server has the agent trust from now on.
func (a *Agent) renewTrust(sealed []byte) {
	if _, err := a.trust.adopt(sealed); err != nil {
		a.cfg.Log.Error("cannot renew trust", "error", err)
	}
}

// completeReport adds to a report what may change while the agent runs.
func (a *Agent) completeReport(r *wire.Report) {
	a.orderGate.completeReport(r)
	r.Trust, r.Place = a.trust.held(), a.acceptance.place
	if r.Hello != nil {
		e := a.trust.current()
		r.Hello.Cloud, r.Hello.IP, r.Hello.ID = e.Cloud, e.IP, e.ID
		r.Hello.Policy = a.policy.Summary()
	}
}
