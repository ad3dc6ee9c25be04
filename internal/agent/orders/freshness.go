package orders

import (
	"fmt"
	"sync"
	"time"

	"drover/internal/wire"
)

const (
	// longestLife is the longest time that an order may wait here, whatever its manifest says.
	longestLife = time.Hour
	// ReplayWindow is how much older than the newest manifest a manifest may be. The journal keeps an order for
	// longer, so an order of that age is either known or new. It is more than a day because clocks are sometimes wrong
	// by a day.
	ReplayWindow = 25 * time.Hour
	// clockTrust is how far the issue time of a manifest may differ from this host's clock: within that time, the
	// agent accepts even a manifest that is too old by the server's clock.
	clockTrust = time.Hour
	// noteEvery is how far the newest issue time may run ahead of the time on disk.
	noteEvery = 10 * time.Minute
)

// lifeOf returns how long the orders of a new manifest may wait before they begin. Both times in the manifest are from
// the server's clock, which may differ from other clocks. So only their difference counts.
func lifeOf(m *wire.Manifest) time.Duration {
	return min(m.Expires.Sub(m.Issued), longestLife)
}

// freshness rejects manifests that are so old that the journal may have forgotten their orders: a replay of old bytes
// must not repeat an order. It is safe for concurrent use.
type freshness struct {
	// note stores the newest issue time on disk.
	note func(issued time.Time) error

	mu     sync.Mutex
	newest time.Time
	noted  time.Time
}

// admit fails for a manifest that is too old by the server's clock and also far from this host's clock. It needs both,
// because one of the clocks may be wrong. It blocks only for an occasional write to disk.
func (f *freshness) admit(issued, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.newest.Sub(issued); old > ReplayWindow && now.Sub(issued).Abs() > clockTrust {
		return fmt.Errorf(
			"it was issued at %s, %s before the newest manifest: it is a copy, or the server's clock was set back; correct this host's clock, and the agent accepts it",
			issued.UTC().Format(time.RFC3339), old.Round(time.Minute))
	}
	if !issued.After(f.newest) {
		return nil
	}
	f.newest = issued
	if issued.Sub(f.noted) < noteEvery {
		return nil
	}
	if err := f.note(issued); err != nil {
		return fmt.Errorf("cannot store its time: %w", err)
	}
	f.noted = issued
	return nil
}
