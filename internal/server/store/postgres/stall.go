package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"drover/internal/server/store/sqldb"
)

// errStalled is the error of an operation that waited too long for the database. The kernel does not notice such a
// stall, because the machine of the database may still acknowledge every byte.
var errStalled = errors.New("the database has not answered in time")

// stallDetector holds the time at which the database was last found to have stopped answering. Connections from before
// that time may lead to a server that hangs, even if another server has replaced it. Any goroutine may use a
// stallDetector.
type stallDetector struct {
	mu    sync.Mutex
	since time.Time // zero for never
}

// mark records that a wait since t got no answer.
func (d *stallDetector) mark(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.After(d.since) {
		d.since = t
	}
}

// covers reports whether a connection from the time t is no longer reliable.
func (d *stallDetector) covers(t time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !t.After(d.since)
}

// stallTimer ends the context of a read that waits too long for the database. It does not count the time that the
// reader spends on received rows, so a long answer may take any time while rows arrive.
type stallTimer struct {
	timer *time.Timer
	limit time.Duration
}

// startTimer begins a wait. errStalled is the cause if the wait takes too long. The caller must call done.
func (b *backend) startTimer(ctx context.Context) (limited context.Context, w *stallTimer, done func()) {
	limited, cancel := context.WithCancelCause(ctx)
	w = &stallTimer{limit: b.patience}
	w.timer = time.AfterFunc(w.limit, func() {
		b.stalls.mark(time.Now().Add(-w.limit))
		cancel(errStalled)
	})
	return limited, w, func() {
		w.rest()
		cancel(nil)
	}
}

func (t *stallTimer) begin() { t.timer.Reset(t.limit) }

func (t *stallTimer) rest() { t.timer.Stop() }

// each is sqldb.Each with a separate wait for each row.
func (t *stallTimer) each(query func() (*sql.Rows, error), scan func(*sql.Rows) error) error {
	return sqldb.Each(query, func(rows *sql.Rows) error {
		t.rest()
		defer t.begin()
		return scan(rows)
	})
}

// withStallCause adds errStalled to an error that the end of a wait caused. The error itself only says that the context
// was canceled, which the caller did not do.
func withStallCause(limited context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(limited), errStalled) {
		return fmt.Errorf("%w (%v)", errStalled, err) //nolint:errorlint // see above
	}
	return err
}

// readSession is an open transaction that only reads.
type readSession struct {
	session
	wait *stallTimer
}

func (r readSession) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	r.wait.begin()
	defer r.wait.rest()
	return r.wait.each(func() (*sql.Rows, error) {
		return r.tx.QueryContext(ctx, r.backend.dialect.Spell(statement), args...)
	}, scan)
}
