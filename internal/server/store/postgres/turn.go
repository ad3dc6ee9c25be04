package postgres

import (
	"context"
	"slices"
	"sync"

	"drover/internal/server/store/sqlstore"
)

// largestBatch bounds how many writes share a transaction, and so how long the first of them waits.
const largestBatch = 128

// turn lets writes that have to be one after another share transactions: those that come while one is at work are run
// together by one of their callers. A write that is refused takes nobody with it: then each is run again alone. A lost
// connection is everybody's: what they wrote may be stored.
type turn struct {
	mu      sync.Mutex
	waiting []*job
	// free holds a token while nobody is at work.
	free chan struct{}
}

// job is one write and the way to its caller.
type job struct {
	do  func(context.Context, sqlstore.Session) error
	err chan error
}

func newTurn() *turn {
	t := &turn{free: make(chan struct{}, 1)}
	t.free <- struct{}{}
	return t
}

// writeFunc is backend.Write.
type writeFunc func(context.Context, func(context.Context, sqlstore.Session) error) error

// run has do run in its turn. The context counts only until then.
func (t *turn) run(ctx context.Context, do func(context.Context, sqlstore.Session) error, write writeFunc) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{do: do, err: make(chan error, 1)}
	t.mu.Lock()
	t.waiting = append(t.waiting, j)
	t.mu.Unlock()
	for {
		select {
		case err := <-j.err:
			return err
		case <-t.free:
			work(context.WithoutCancel(ctx), t.next(), write)
			t.free <- struct{}{}
		case <-ctx.Done():
			if t.withdraw(j) {
				return ctx.Err()
			}
			return <-j.err
		}
	}
}

// next takes the writes that have waited longest.
func (t *turn) next() []*job {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.waiting), largestBatch)
	batch := slices.Clone(t.waiting[:n])
	t.waiting = slices.Delete(t.waiting, 0, n)
	return batch
}

// withdraw takes back a write that nobody has begun.
func (t *turn) withdraw(j *job) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting, j)
	if at < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	return true
}

// work runs writes in one transaction, or alone where one of them is refused, and answers them.
func work(ctx context.Context, batch []*job, write writeFunc) {
	if len(batch) > 1 {
		err := write(ctx, func(ctx context.Context, s sqlstore.Session) error {
			for _, j := range batch {
				if err := j.do(ctx, s); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil || lost(err) {
			for _, j := range batch {
				j.err <- err
			}
			return
		}
	}
	for _, j := range batch {
		j.err <- write(ctx, j.do)
	}
}
