package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/lease"
)

// table is a database that gives out one lease.
type table struct {
	mu     sync.Mutex
	holder string
	until  time.Time
	dead   bool
	asked  int
}

var errDead = errors.New("the database does not answer")

func (t *table) TakeLease(_ context.Context, _, holder string, hold time.Duration) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	switch now := time.Now(); {
	case t.dead:
		return false, errDead
	case t.holder != holder && now.Before(t.until):
		return false, nil
	default:
		t.holder, t.until = holder, now.Add(hold)
		return true, nil
	}
}

func (t *table) DropLease(_ context.Context, _, holder string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return errDead
	}
	if t.holder == holder {
		t.until = time.Time{}
	}
	return nil
}

func (t *table) set(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

// server is one of those that share the table.
type server struct {
	stop func()
	// ended receives what Alone has returned.
	ended chan error
	// runs and ends count how often the part was begun and ended; endedAt is when it was last.
	mu         sync.Mutex
	runs, ends int
	endedAt    time.Time
}

// start has a server ask for the lease; its part returns what it is told once its context has ended.
func start(t *testing.T, db *table, name string, result error) *server {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &server{stop: stop, ended: make(chan error, 1)}
	go func() {
		s.ended <- lease.Alone(ctx, lease.Config{
			Store: db, Name: "alarms", Holder: name,
			Log: slog.New(slog.DiscardHandler),
		}, func(ctx context.Context) error {
			s.mu.Lock()
			s.runs++
			s.mu.Unlock()
			<-ctx.Done()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ends++
			s.endedAt = time.Now()
			return result
		})
	}()
	return s
}

// is checks how often the part was begun and ended.
func (s *server) is(t *testing.T, what string, runs, ends int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs != runs || s.ends != ends {
		t.Errorf("%s: the part was begun %d times and ended %d times, want %d and %d", what, s.runs, s.ends, runs, ends)
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &table{}
		a := start(t, db, "a", nil)
		pass(time.Second)
		b := start(t, db, "b", nil)
		pass(time.Minute)
		a.is(t, "the first", 1, 0)
		b.is(t, "the second", 0, 0)
		a.stop()
		if err := <-a.ended; err != nil {
			t.Error(err)
		}
		pass(6 * time.Second)
		a.is(t, "the first after its end", 1, 1)
		b.is(t, "the second after the end of the first", 1, 0)
		b.stop()
		if err := <-b.ended; err != nil {
			t.Error(err)
		}
	})
}

// TestDatabaseGone: whoever has the lease stops before another could have it, and takes it again later.
func TestDatabaseGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &table{}
		a := start(t, db, "a", nil)
		pass(time.Second)
		var until time.Time
		db.set(func() { db.dead, until = true, db.until })
		pass(20 * time.Second)
		a.is(t, "without a database", 1, 1)
		if left := until.Sub(a.endedAt); left < 2*time.Second {
			t.Errorf("the part ended %v before the lease did", left)
		}
		db.set(func() { db.dead = false })
		pass(10 * time.Second)
		a.is(t, "with the database again", 2, 1)
		a.stop()
		if err := <-a.ended; err != nil {
			t.Error(err)
		}
	})
}

// TestLost: where another has the lease, as after a stop of the whole machine, the part ends.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &table{}
		a := start(t, db, "a", nil)
		pass(time.Second)
		db.set(func() { db.holder, db.until = "b", time.Now().Add(time.Hour) })
		pass(6 * time.Second)
		a.is(t, "after another has taken it", 1, 1)
		a.stop()
		if err := <-a.ended; err != nil {
			t.Error(err)
		}
	})
}

func TestPartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, broken := &table{}, errors.New("broken")
		a := start(t, db, "a", broken)
		pass(time.Second)
		db.set(func() { db.holder, db.until = "b", time.Now().Add(time.Hour) })
		if err := <-a.ended; !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAsksSlowly: a database that is away is not stormed.
func TestAsksSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &table{dead: true}
		a := start(t, db, "a", nil)
		pass(time.Minute)
		db.set(func() {
			if db.asked < 10 || db.asked > 15 {
				t.Errorf("it was asked %d times within a minute", db.asked)
			}
		})
		a.stop()
		if err := <-a.ended; err != nil {
			t.Error(err)
		}
	})
}
