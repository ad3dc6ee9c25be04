// Package sqlstore keeps the server's state in an SQL database. It owns the statements, their meaning and the mapping
// of rows to values. The packages beside it own the connections, the schema and the differences between databases;
// each of them is a Backend. Package store defines the meaning of the state, and storetest proves it.
//
// Statements are written once, in the SQL that the databases share and in a few placeholders that a Dialect replaces.
// Times are Unix nanoseconds, 0 for the zero time; flags are 0 or 1; structured values are JSON as text.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/store"
)

var _ store.Store = (*Store)(nil)

// Session runs statements.
type Session interface {
	// Exec runs a statement that returns no rows, and returns the number of changed rows.
	Exec(ctx context.Context, statement string, args ...any) (int, error)
	// Query calls scan for each row that the statement returns. A sql.RawBytes is valid until scan returns.
	Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error
}

// Backend is a database that runs statements.
type Backend interface {
	// Query reads committed data.
	Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error
	// Snapshot lets do read the database as of one moment.
	Snapshot(ctx context.Context, do func(context.Context, Session) error) error
	// Write runs do in a transaction, and returns when the transaction is durable or undone. It runs do again if the
	// database asks for that, so do must start from the beginning each time.
	Write(ctx context.Context, do func(context.Context, Session) error) error
	// WriteSerially is Write for transactions that run one after another. Callers that wait at the same time may share
	// a transaction.
	WriteSerially(ctx context.Context, do func(context.Context, Session) error) error
	Dialect() *Dialect
	// Close waits for the open writes. Later calls of other methods fail.
	Close() error
}

// Store is the state in a database. Any goroutine may call its methods.
//
// The context does not interrupt a write that has begun: the method returns when the database has stored or rejected
// it. The functions that TaskItems and GetObserved call while they read must not call the Store and must not wait for a
// slow peer, because they hold a connection and a snapshot of the database.
type Store struct {
	backend Backend
	dialect *Dialect
	watch   Watch
	views   viewCache
	full    fullness
}

// New returns the state in a database whose schema is up to date. If watch is not nil, it receives notices of what is
// stored.
func New(backend Backend, watch Watch) *Store {
	if watch == nil {
		watch = noWatch{}
	}
	return &Store{backend: backend, dialect: backend.Dialect(), watch: watch}
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

// failed makes an error of the database known as such.
func failed(err error) error {
	if _, known := errors.AsType[*store.Failure](err); err == nil || known {
		return err
	}
	return &store.Failure{Err: err}
}

// write has do run in a transaction.
func (db *Store) write(ctx context.Context, do func(context.Context, tx) error) error {
	var own error // of what is done, which need not be the database's
	err := db.backend.Write(ctx, func(ctx context.Context, s Session) error {
		own = do(ctx, tx{s})
		return own
	})
	if own != nil && errors.Is(err, own) {
		return db.full.judge(ctx, err)
	}
	return db.full.judge(ctx, failed(err))
}

// writeSerially is write for transactions of which each has to wait for the one before it.
func (db *Store) writeSerially(ctx context.Context, do func(context.Context, tx) error) error {
	return db.full.judge(ctx, db.backend.WriteSerially(ctx, func(ctx context.Context, s Session) error {
		return do(ctx, tx{s})
	}))
}

// tx is a transaction that a write runs in.
type tx struct{ session Session }

// exec runs a statement that returns no rows.
func (t tx) exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.session.Exec(ctx, statement, args...)
	return failed(err)
}

// affect runs a statement that returns no rows and says how many it changed.
func (t tx) affect(ctx context.Context, statement string, args ...any) (int, error) {
	n, err := t.session.Exec(ctx, statement, args...)
	return n, failed(err)
}

// query calls scan for each row that the statement returns.
func (t tx) query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return failed(t.session.Query(ctx, scan, statement, args...))
}

// value scans the one row that the statement returns; sql.ErrNoRows says that there is none.
func (t tx) value(ctx context.Context, dest any, statement string, args ...any) error {
	found := false
	err := t.session.Query(ctx, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest)
	}, statement, args...)
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return err
}

// Each calls scan for each row that a query returns, and closes the rows.
func Each(query func() (*sql.Rows, error), scan func(*sql.Rows) error) (err error) {
	rows, err := query()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// nanos and moment turn times into columns and back.
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
