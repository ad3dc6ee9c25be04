package orders

import (
	"fmt"
	"sync"
	"time"

	"drover/internal/wire"
)

const (
	// longestLife is how long an order may wait here at most, whatever its manifest says.
	longestLife = time.Hour
	// ReplayWindow is how much older than the newest manifest another one may be. The journal keeps an order for
	// longer, so that an order of that age is either known or new. It is more than a day because that is how far
	// clocks are stepped by mistake.
	ReplayWindow = 25 * time.Hour
	// clockTrust is how far a manifest may be off this host's clock to be believed for its sake alone.
	clockTrust = time.Hour
	// noteEvery is how far the newest manifest runs ahead of what is on disk.
	noteEvery = 10 * time.Minute
)

// lifeOf returns how long the orders of a manifest that has just come may wait before they begin. The two times in it
// are of one clock, the server's, which need not agree with any other: only the time between them counts.
func lifeOf(m *wire.Manifest) time.Duration {
	return min(m.Expires.Sub(m.Issued), longestLife)
}

// freshness refuses manifests so old that what became of their orders may have been forgotten: whoever can send old
// bytes again must not have them carried out again. It is safe for concurrent use.
type freshness struct {
	// note keeps the newest issue time on disk.
	note func(issued time.Time) error

	mu     sync.Mutex
	newest time.Time
	noted  time.Time
}

// admit fails for a manifest that was issued too long ago, by the server's clock and by this host's alike: one of them
// may be wrong. It does not wait for anything but, now and then, the disk.
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
