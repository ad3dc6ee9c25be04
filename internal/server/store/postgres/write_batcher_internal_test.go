package postgres

import (
	"context"
	"errors"
	"net"
	"testing"

	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// TestBatchThatFails: writes of which one is refused are run again alone, those whose connection was lost are not, as
// they may be stored.
func TestBatchThatFails(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{{nil, 1}, {store.ErrExists, 4}, {net.ErrClosed, 1}, {context.DeadlineExceeded, 1}} {
		batch := make([]*job, 3)
		for i := range batch {
			batch[i] = &job{err: make(chan error, 1)}
		}
		written := 0
		runBatch(t.Context(), batch, func(context.Context, func(context.Context, sqldb.Session) error) error {
			written++
			return c.err
		})
		if written != c.want {
			t.Errorf("%v: %d transactions, want %d", c.err, written, c.want)
		}
		for _, j := range batch {
			if err := <-j.err; !errors.Is(err, c.err) {
				t.Errorf("a caller has %v, want %v", err, c.err)
			}
		}
	}
}
