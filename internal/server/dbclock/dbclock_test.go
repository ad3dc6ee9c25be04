package dbclock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/dbclock"
)

// database is a clock that can be set, and can fail.
type database struct {
	mu   sync.Mutex
	off  time.Duration
	slow time.Duration
	err  error
}

func (d *database) set(off time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off, d.err = off, err
}

func (d *database) ask(context.Context) (time.Time, error) {
	d.mu.Lock()
	off, slow, err := d.off, d.slow, d.err
	d.mu.Unlock()
	time.Sleep(slow / 2)
	now := time.Now().Add(off).Round(0)
	time.Sleep(slow / 2)
	return now, err
}

func TestTheDatabaseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &database{off: -time.Hour, slow: 400 * time.Millisecond}
		var log bytes.Buffer
		c, err := dbclock.New(t.Context(), dbclock.Config{Ask: db.ask, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		shows := func(off time.Duration) {
			t.Helper()
			for name, now := range map[string]time.Time{"Now": c.Now(), "Wall": c.Wall()} {
				if d := now.Sub(time.Now().Round(0).Add(off)).Abs(); d > 10*time.Millisecond {
					t.Errorf("%s is %v off", name, d)
				}
			}
			if d := (c.Skew() + off).Abs(); d > 10*time.Millisecond {
				t.Errorf("skew is %v, want %v", c.Skew(), -off)
			}
		}
		shows(-time.Hour)
		if !strings.Contains(log.String(), "clock of this machine differs from the clock of the database") {
			t.Errorf("log is %q", log.String())
		}
		var steps []time.Duration
		c.OnStep(func(by time.Duration) { steps = append(steps, by.Round(time.Second)) })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		pass := func() {
			time.Sleep(time.Minute + time.Second)
			synctest.Wait()
		}
		pass()
		shows(-time.Hour)
		db.set(-time.Hour+200*time.Millisecond, nil) // it drifts
		pass()
		shows(-time.Hour + 200*time.Millisecond)
		db.set(time.Hour, nil) // another one has taken over
		pass()
		shows(time.Hour)
		db.set(0, errors.New("gone"))
		pass()
		shows(time.Hour)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if len(steps) != 1 || steps[0] != 2*time.Hour {
			t.Errorf("steps are %v", steps)
		}
	})
}

func TestNoClock(t *testing.T) {
	db := &database{err: errors.New("gone")}
	if _, err := dbclock.New(t.Context(), dbclock.Config{Ask: db.ask, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a clock without a time")
	}
}

// TestAlone: who sets the machine's clock changes what people see, and nothing that operations are timed by.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := time.Now()
		begun := own
		c := dbclock.Alone(func() time.Time { return own })
		own = own.Add(time.Hour)
		time.Sleep(time.Second)
		if got := c.Now().Sub(begun); got != time.Second {
			t.Errorf("%v have passed, want 1s", got)
		}
		if !c.Wall().Equal(own) || c.Skew() != 0 {
			t.Errorf("it shows %v, skew %v", c.Wall(), c.Skew())
		}
	})
}
