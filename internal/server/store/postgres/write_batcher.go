package postgres

import (
	"context"
	"slices"
	"sync"

	"drover/internal/server/store/sqldb"
)

// largestBatch bounds how many writes share a transaction, and so how long the first of them waits.
const largestBatch = 128

// writeBatcher lets writes that must run one after another share transactions. Writes that arrive while a batch runs
// form the next batch, and one of their callers runs it. If a write fails, the batcher runs each write of the batch
// again alone. If the connection is lost, every write fails: the changes may be stored.
type writeBatcher struct {
	mu      sync.Mutex
	waiting []*job
	// free holds a token while no batch runs.
	free chan struct{}
}

// job is one write and the channel for its result.
type job struct {
	do  func(context.Context, sqldb.Session) error
	err chan error
}

func newWriteBatcher() *writeBatcher {
	t := &writeBatcher{free: make(chan struct{}, 1)}
	t.free <- struct{}{}
	return t
}

// writeFunc is backend.Write.
type writeFunc func(context.Context, func(context.Context, sqldb.Session) error) error

// run runs do in a batch. The context has no effect once the batch begins.
func (b *writeBatcher) run(
	ctx context.Context, do func(context.Context, sqldb.Session) error, write writeFunc,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{do: do, err: make(chan error, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, j)
	b.mu.Unlock()
	for {
		select {
		case err := <-j.err:
			return err
		case <-b.free:
			runBatch(context.WithoutCancel(ctx), b.next(), write)
			b.free <- struct{}{}
		case <-ctx.Done():
			if b.withdraw(j) {
				return ctx.Err()
			}
			return <-j.err
		}
	}
}

// next removes and returns the writes that have waited longest.
func (b *writeBatcher) next() []*job {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), largestBatch)
	batch := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	return batch
}

// withdraw removes a write that no batch has taken, and reports whether it did.
func (b *writeBatcher) withdraw(j *job) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiting, j)
	if at < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	return true
}

// runBatch runs writes in one transaction, or each alone if one of them fails, and answers them.
func runBatch(ctx context.Context, batch []*job, write writeFunc) {
	if len(batch) > 1 {
		err := write(ctx, func(ctx context.Context, s sqldb.Session) error {
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
