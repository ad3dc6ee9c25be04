package breakerdriver_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/server/breakerdriver"
	"drover/internal/server/store"
)

// resting is a database without failures and breakers.
type resting struct {
	breakerdriver.Store
	looks atomic.Int64
}

func (r *resting) LastCursor(context.Context) (int64, error) { return 0, nil }

func (r *resting) EventsBefore(context.Context, store.EventMark, store.EventFilter, int) (
	[]store.StoredEvent, store.EventMark, error,
) {
	return nil, store.EventMark{}, nil
}

func (r *resting) EventsAfter(context.Context, int64, store.EventFilter, int) ([]store.StoredEvent, int64, error) {
	r.looks.Add(1)
	return nil, 0, nil
}

func (r *resting) ListBreakers(context.Context) ([]store.Breaker, error) { return nil, nil }

// TestAtRest: without failures and breakers the guard waits for a word. A storm of words does not make it look more than
// once a second.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, woken := &resting{}, make(chan struct{}, 1)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- breakerdriver.New(breakerdriver.Config{Store: db, Woken: woken, Now: time.Now, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		}()
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if db.looks.Load() != 6 {
			t.Errorf("it looks %d times a minute", db.looks.Load())
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		before := db.looks.Load()
		for range 100 {
			select {
			case woken <- struct{}{}:
			default:
			}
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
		}
		if n := db.looks.Load() - before; n < 5 || n > 7 {
			t.Errorf("in five seconds of words it has looked %d times", n)
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
