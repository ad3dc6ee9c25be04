package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"drover/internal/server/store/sqlstore"
)

// errSilent ends what the database has kept waiting for too long. Its machine may still acknowledge every byte, so the
// kernel does not notice.
var errSilent = errors.New("the database has not answered in time")

// silence remembers when the database was last found to have stopped answering: connections that were made before may
// lead to a server that hangs, even where another one has taken its place. It may be used from any goroutine.
type silence struct {
	mu    sync.Mutex
	since time.Time // zero for never
}

// began takes down that a wait which began at t has had no answer.
func (s *silence) began(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.After(s.since) {
		s.since = t
	}
}

// covers reports whether a connection that was made at t is not to be trusted any more.
func (s *silence) covers(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !t.After(s.since)
}

// wait ends the context of a read that the database keeps waiting. The time that is spent on what it has answered does
// not count, so that a long answer may take as long as it comes.
type wait struct {
	timer *time.Timer
	limit time.Duration
}

// waiting begins a wait. The context ends with errSilent as its cause; done must be called.
func (b *backend) waiting(ctx context.Context) (limited context.Context, w *wait, done func()) {
	limited, cancel := context.WithCancelCause(ctx)
	w = &wait{limit: b.patience}
	w.timer = time.AfterFunc(w.limit, func() {
		b.silence.began(time.Now().Add(-w.limit))
		cancel(errSilent)
	})
	return limited, w, func() {
		w.rest()
		cancel(nil)
	}
}

func (w *wait) begin() { w.timer.Reset(w.limit) }

func (w *wait) rest() { w.timer.Stop() }

// each is sqlstore.Each, and waits for one row after the other.
func (w *wait) each(query func() (*sql.Rows, error), scan func(*sql.Rows) error) error {
	return sqlstore.Each(query, func(rows *sql.Rows) error {
		w.rest()
		defer w.begin()
		return scan(rows)
	})
}

// told says of an error that it comes from the end of a wait. The error itself only tells that the context was
// canceled, which the caller has not done.
func told(limited context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(limited), errSilent) {
		return fmt.Errorf("%w (%v)", errSilent, err) //nolint:errorlint // see above
	}
	return err
}

// reading is an open transaction that only reads.
type reading struct {
	session
	wait *wait
}

func (r reading) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	r.wait.begin()
	defer r.wait.rest()
	return r.wait.each(func() (*sql.Rows, error) {
		return r.tx.QueryContext(ctx, r.backend.speller.Spell(statement), args...)
	}, scan)
}
