package rolloutdriver_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/rolloutdriver"
)

// resting is a database without open rollouts.
type resting struct {
	rolloutdriver.Store
	next  time.Time
	looks atomic.Int64
}

func (r *resting) OpenRollouts(_ context.Context, now time.Time) ([]string, time.Time, error) {
	r.looks.Add(1)
	if !r.next.After(now) { // then it would be open
		return nil, time.Time{}, nil
	}
	return nil, r.next, nil
}

// TestAtRest: without open rollouts the driver waits for a word, or for the next time.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, woken := &resting{}, make(chan struct{}, 1)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- rolloutdriver.New(rolloutdriver.Config{
				Store: db, Woken: woken, Now: time.Now, Wall: time.Now, Log: slog.New(slog.DiscardHandler),
			}).Run(ctx)
		}()
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if db.looks.Load() != 6 {
			t.Errorf("it looks %d times a minute", db.looks.Load())
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		before := db.looks.Load()
		db.next = time.Now().Add(3 * time.Second)
		woken <- struct{}{}
		synctest.Wait()
		if db.looks.Load() != before+1 {
			t.Errorf("after a word it has looked %d times, want once", db.looks.Load()-before)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if db.looks.Load() < before+2 {
			t.Error("it does not look at the time of the next rollout")
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
