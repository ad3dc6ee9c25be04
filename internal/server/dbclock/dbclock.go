// Package dbclock is the time that all servers of a fleet share: the clock of their database. One server writes times
// that another server reads, such as the expiry of a lease or a token. So a server with a wrong clock must not use
// its own clock. The package owns the difference between the two clocks and reports it; it sets no clock.
package dbclock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// every is the interval at which the clock asks the database.
	every = time.Minute
	// asking bounds one request.
	asking = 5 * time.Second
	// step is the smallest change that is not drift: it is logged, and reported to the parts that hold times in memory.
	step = time.Second
)

// Config holds the settings of a Clock.
type Config struct {
	// Ask returns the database's time.
	Ask func(ctx context.Context) (time.Time, error)
	// Own is this machine's clock; time.Now when nil.
	Own func() time.Time
	Log *slog.Logger
}

// Clock returns the time of the database. It is safe for concurrent use; only Run blocks.
type Clock struct {
	cfg Config

	mu sync.RWMutex
	// base is the time at the moment start.
	base, start time.Time
	skew        time.Duration
	// stepped is called with the size of a jump of the clock.
	stepped func(by time.Duration)
}

// New asks the database for the time once, and returns a clock that continues from there.
func New(ctx context.Context, cfg Config) (*Clock, error) {
	if cfg.Own == nil {
		cfg.Own = time.Now
	}
	c := &Clock{cfg: cfg, stepped: func(time.Duration) {}}
	skew, err := c.measure(ctx)
	if err != nil {
		return nil, err
	}
	c.adopt(skew)
	if skew.Abs() >= step {
		cfg.Log.WarnContext(ctx, "clock of this machine differs from the clock of the database, which is authoritative",
			"ahead", skew)
	}
	return c, nil
}

// Alone returns the clock of a server whose database is not shared: the machine's clock of now, continued by the
// monotonic clock.
func Alone(own func() time.Time) *Clock {
	return &Clock{cfg: Config{Own: own}, base: own(), start: time.Now()}
}

// OnStep has f called whenever the clock jumps, with how far. It is for before Run.
func (c *Clock) OnStep(f func(by time.Duration)) { c.stepped = f }

// Now returns the current time. A change of the machine's clock does not affect it.
func (c *Clock) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.base.Add(time.Since(c.start))
}

// Wall returns the time for people: the machine's current clock for an Alone clock, otherwise Now.
func (c *Clock) Wall() time.Time {
	if c.cfg.Ask == nil {
		return c.cfg.Own()
	}
	return c.Now()
}

// Skew is how far the clock of this machine is ahead of the database's.
func (c *Clock) Skew() time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.skew
}

// Run follows the database's clock, until ctx ends. It is not for a clock that is Alone.
func (c *Clock) Run(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.update(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// update asks the database once more.
func (c *Clock) update(ctx context.Context) {
	skew, err := c.measure(ctx)
	if err != nil {
		c.cfg.Log.WarnContext(ctx, "cannot read the clock of the database", "error", err)
		return
	}
	before := c.Now()
	c.adopt(skew)
	if by := c.Now().Sub(before); by.Abs() >= step {
		c.cfg.Log.WarnContext(ctx, "clock of the database was changed", "by", by)
		c.stepped(by)
	}
}

// measure returns how far the machine's clock is ahead of the database's. It assumes that request and answer take equal
// time.
func (c *Clock) measure(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	begun := time.Now()
	before := c.cfg.Own()
	theirs, err := c.cfg.Ask(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot read the clock of the database: %w", err)
	}
	return before.Add(time.Since(begun) / 2).Sub(theirs), nil
}

func (c *Clock) adopt(skew time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew, c.start = skew, time.Now()
	// Round removes Go's monotonic reading, which has no relation to the database's clock.
	c.base = c.cfg.Own().Round(0).Add(-skew)
}
