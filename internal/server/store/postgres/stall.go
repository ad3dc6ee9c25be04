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

// errStalled ends what the database has kept waiting for too long. Its machine may still acknowledge every byte, so the
// kernel does not notice.
var errStalled = errors.New("the database has not answered in time")

// stallDetector remembers when the database was last found to have stopped answering: connections that were made before
// may lead to a server that hangs, even where another one has taken its place. It may be used from any goroutine.
type stallDetector struct {
	mu    sync.Mutex
	since time.Time // zero for never
}

// mark takes down that a wait which began at t has had no answer.
func (d *stallDetector) mark(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.After(d.since) {
		d.since = t
	}
}

// covers reports whether a connection that was made at t is not to be trusted any more.
func (d *stallDetector) covers(t time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !t.After(d.since)
}

// stallTimer ends the context of a read that the database keeps waiting. The time that is spent on what it has answered
// does not count, so that a long answer may take as long as it comes.
type stallTimer struct {
	timer *time.Timer
	limit time.Duration
}

// startTimer begins a wait. The context ends with errStalled as its cause; done must be called.
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

// each is sqldb.Each, and waits for one row after the other.
func (t *stallTimer) each(query func() (*sql.Rows, error), scan func(*sql.Rows) error) error {
	return sqldb.Each(query, func(rows *sql.Rows) error {
		t.rest()
		defer t.begin()
		return scan(rows)
	})
}

// withStallCause says of an error that it comes from the end of a wait. The error itself only tells that the context
// was canceled, which the caller has not done.
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
