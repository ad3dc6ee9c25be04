// Package sqlstore keeps the server's state in an SQL database. It owns the statements, their meaning and the mapping
// of rows to values. The packages sqlite and postgres own the connections, the schema and the differences between
// databases; each of them has a sqldb.Backend. Package store defines the meaning of the state, and storetest proves it.
//
// Statements are written once, in the SQL that the databases share and in a few placeholders that a sqldb.Dialect
// replaces. Times are Unix nanoseconds, 0 for the zero time; flags are 0 or 1; structured values are JSON as text.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"drover/internal/process"
	"drover/internal/server/batch"
	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

var _ store.Store = (*Store)(nil)

// Store is the state in a database. Any goroutine may call its methods.
//
// The context does not interrupt a write that has begun: the method returns when the database has stored or rejected
// it. The functions that TaskItems and GetObserved call hold a connection and a snapshot of the database. They must not
// call the Store, and must not wait for a slow peer.
type Store struct {
	backend sqldb.Backend
	dialect *sqldb.Dialect
	watch   Watch
	views   viewCache
	full    fullness
	// These gather the reports of many agents.
	observed *batch.Writer[observedReport]
	arriving *batch.Writer[*eventReport]
	begun    *batch.Writer[begunItem]
}

// New returns the state in a database whose schema is up to date. If watch is not nil, it receives notices of what is
// stored.
func New(backend sqldb.Backend, watch Watch) *Store {
	if watch == nil {
		watch = noWatch{}
	}
	db := &Store{backend: backend, dialect: backend.Dialect(), watch: watch}
	db.observed = batch.New(reportBatch, db.putObserved)
	db.arriving = batch.New(reportBatch, db.putEvents)
	db.begun = batch.New(reportBatch, db.begin)
	return db
}

// Close waits for the open writes and closes the database. Later calls of other methods fail.
func (db *Store) Close() error { return db.backend.Close() }

// Ping writes a row, and fails if the row does not become durable.
func (db *Store) Ping(ctx context.Context) error {
	err := db.write(ctx, func(ctx context.Context, tx tx) error {
		return tx.exec(ctx, `UPDATE ping SET at = ? WHERE num = 1`, nanos(time.Now()))
	})
	if err != nil {
		return fmt.Errorf("cannot write to database: %w", err)
	}
	return nil
}

// query runs a read and calls scan for each of its rows.
func (db *Store) query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return failed(db.backend.Query(ctx, scan, statement, args...))
}

// failed marks an error of the database as a store.Failure.
func failed(err error) error {
	if _, known := errors.AsType[*store.Failure](err); err == nil || known {
		return err
	}
	return &store.Failure{Err: err}
}

// write runs do in a transaction.
func (db *Store) write(ctx context.Context, do func(context.Context, tx) error) error {
	var own error // the error of do, which may not come from the database
	err := db.backend.Write(ctx, func(ctx context.Context, s sqldb.Session) error {
		own = do(ctx, tx{s})
		return own
	})
	if own != nil && errors.Is(err, own) {
		return db.full.judge(ctx, err)
	}
	return db.full.judge(ctx, failed(err))
}

// writeSerially is write for transactions that must run one after another.
func (db *Store) writeSerially(ctx context.Context, do func(context.Context, tx) error) error {
	return db.full.judge(ctx, db.backend.WriteSerially(ctx, func(ctx context.Context, s sqldb.Session) error {
		return do(ctx, tx{s})
	}))
}

// tx is the transaction of a write.
type tx struct{ session sqldb.Session }

// exec runs a statement that returns no rows.
func (t tx) exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.session.Exec(ctx, statement, args...)
	return failed(err)
}

// affect runs a statement that returns no rows, and returns the number of changed rows.
func (t tx) affect(ctx context.Context, statement string, args ...any) (int, error) {
	n, err := t.session.Exec(ctx, statement, args...)
	return n, failed(err)
}

// query calls scan for each row that the statement returns.
func (t tx) query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return failed(t.session.Query(ctx, scan, statement, args...))
}

// nanos and moment convert times to columns and back.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// fullness holds the time since which writes find no room.
type fullness struct {
	mu    sync.Mutex
	since time.Time
}

// judge updates the time from the result of a write. The success of an urgent write does not prove that other writes
// have room.
func (f *fullness) judge(ctx context.Context, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case errors.Is(err, sqldb.ErrFull):
		if f.since.IsZero() {
			f.since = time.Now()
		}
		return &store.FullError{Since: f.since, Err: err}
	case err == nil && !sqldb.Urgent(ctx):
		f.since = time.Time{}
	}
	return err
}

// FullSince returns the time since which writes find no room; the zero time means that there is room.
func (db *Store) FullSince() time.Time {
	db.full.mu.Lock()
	defer db.full.mu.Unlock()
	return db.full.since
}

// Watch receives notices of what was stored, for metrics. Its methods return at once, and any goroutine may call them.
type Watch interface {
	// Wrote tells that a transaction of some writes is on disk, or has failed, after the given time.
	Wrote(writes int, took time.Duration, err error)
	// Ended tells that an item got its outcome, and the time since the creation of its task.
	Ended(op process.Op, fault process.Fault, took time.Duration)
	// Happened tells that a new event was stored, and the time since the event by the clock of its host.
	Happened(kind process.EventKind, delay time.Duration)
	// Audited tells that rows were added to the audit log.
	Audited(rows int)
}

// noWatch ignores all notices.
type noWatch struct{}

func (noWatch) Wrote(int, time.Duration, error)                {}
func (noWatch) Ended(process.Op, process.Fault, time.Duration) {}
func (noWatch) Happened(process.EventKind, time.Duration)      {}
func (noWatch) Audited(int)                                    {}

// queryFunc is tx.query or Store.query.
type queryFunc func(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error

// scanFunc reads the row that rows stands on.
type scanFunc[T any] func(rows *sql.Rows) (T, error)

// column is the scanFunc of a row that has one column.
func column[T any](rows *sql.Rows) (v T, err error) {
	err = rows.Scan(&v)
	return v, err
}

// all returns the rows of a query in their order; nil if there are no rows.
func all[T any](ctx context.Context, query queryFunc, scan scanFunc[T], text string, args ...any) ([]T, error) {
	var list []T
	err := query(ctx, func(rows *sql.Rows) error {
		v, err := scan(rows)
		list = append(list, v)
		return err
	}, text, args...)
	return list, err
}

// one returns the only row of a query, or store.ErrNotFound if there is no row.
func one[T any](ctx context.Context, query queryFunc, scan scanFunc[T], text string, args ...any) (T, error) {
	list, err := all(ctx, query, scan, text, args...)
	if err == nil && len(list) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return list[0], nil
}

// altered reads and locks the only row of a query, calls change on it, and stores and returns the result, all in one
// transaction.
func altered[T any](ctx context.Context, db *Store, scan scanFunc[T], text string, key string,
	alter func(context.Context, tx, *T) error,
) (T, error) {
	var row T
	err := db.write(ctx, func(ctx context.Context, tx tx) (err error) {
		if row, err = one(ctx, tx.query, scan, text+db.dialect.Locked, key); err != nil {
			return err
		}
		return alter(ctx, tx, &row)
	})
	return row, err
}

// inserted turns an insert that changed nothing into ErrExists.
func inserted(n int, err error) error {
	if err == nil && n == 0 {
		return store.ErrExists
	}
	return err
}

// affected turns a change of a missing row into ErrNotFound.
func affected(n int, err error) error {
	if err == nil && n == 0 {
		return store.ErrNotFound
	}
	return err
}

// rowValues is a statement with the values of many rows.
type rowValues struct {
	// head is the text up to "VALUES"; tail is the text after the rows.
	head, tail string
	// row is the text of one row. It writes its own parameters as "?", and the parameters that all rows share as "?1",
	// "?2" and so on, once each.
	row string
	// shared are the values of the shared parameters.
	shared []any
	// scan reads each row that the statement returns; it may be nil.
	scan func(*sql.Rows) error
}

// run runs the statement for rows whose own parameters follow one another in args. It uses statement sizes that are
// powers of four, so any number of rows needs only a few prepared texts.
func (v rowValues) run(ctx context.Context, tx tx, args []any) error {
	width := strings.Count(v.row, "?") - len(v.shared)
	for size := 256; size > 0; size /= 4 {
		query := ""
		for len(args) >= size*width {
			if query == "" {
				query = v.head + strings.TrimSuffix(strings.Repeat(v.row+",", size), ",") + v.tail
			}
			values := make([]any, 0, len(v.shared)+size*width)
			values = append(append(values, v.shared...), args[:size*width]...)
			if err := v.runOnce(ctx, tx, query, values); err != nil {
				return err
			}
			args = args[size*width:]
		}
	}
	return nil
}

func (v rowValues) runOnce(ctx context.Context, tx tx, query string, values []any) error {
	if v.scan == nil {
		return tx.exec(ctx, query, values...)
	}
	return tx.query(ctx, v.scan, query, values...)
}
