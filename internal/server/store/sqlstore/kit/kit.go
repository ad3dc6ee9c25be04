// Package kit is what all tables share: reads and transactions, the values of columns, and the conditions of lists.
package kit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"drover/internal/server/store"
	"drover/internal/server/store/sqldb"
)

// DB is a database whose schema is up to date. Any goroutine may call its methods.
//
// The context does not interrupt a write that has begun: the method returns when the database has stored or rejected
// it.
type DB struct {
	Backend sqldb.Backend
	Dialect *sqldb.Dialect
	Watch   Watch
	full    fullness
}

// New returns a database. If watch is not nil, it receives notices of what is stored.
func New(backend sqldb.Backend, watch Watch) *DB {
	if watch == nil {
		watch = noWatch{}
	}
	return &DB{Backend: backend, Dialect: backend.Dialect(), Watch: watch}
}

// Close waits for the open writes and closes the database. Later calls of other methods fail.
func (db *DB) Close() error { return db.Backend.Close() }

// Ping writes a row, and fails if the row does not become durable.
func (db *DB) Ping(ctx context.Context) error {
	err := db.Write(ctx, func(ctx context.Context, tx Tx) error {
		return tx.Exec(ctx, `UPDATE ping SET at = ? WHERE num = 1`, Nanos(time.Now()))
	})
	if err != nil {
		return fmt.Errorf("cannot write to database: %w", err)
	}
	return nil
}

// Query runs a read and calls scan for each of its rows.
func (db *DB) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return Failed(db.Backend.Query(ctx, scan, statement, args...))
}

// Failed marks an error of the database as a store.Failure.
func Failed(err error) error {
	if _, known := errors.AsType[*store.Failure](err); err == nil || known {
		return err
	}
	return &store.Failure{Err: err}
}

// Write runs do in a transaction.
func (db *DB) Write(ctx context.Context, do func(context.Context, Tx) error) error {
	var own error // the error of do, which may not come from the database
	err := db.Backend.Write(ctx, func(ctx context.Context, s sqldb.Session) error {
		own = do(ctx, Tx{Session: s})
		return own
	})
	if own != nil && errors.Is(err, own) {
		return db.full.judge(ctx, err)
	}
	return db.full.judge(ctx, Failed(err))
}

// WriteSerially is Write for transactions that must run one after another.
func (db *DB) WriteSerially(ctx context.Context, do func(context.Context, Tx) error) error {
	return db.full.judge(ctx, db.Backend.WriteSerially(ctx, func(ctx context.Context, s sqldb.Session) error {
		return do(ctx, Tx{Session: s})
	}))
}

// Tx is the transaction of a write.
type Tx struct{ Session sqldb.Session }

// Exec runs a statement that returns no rows.
func (t Tx) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.Session.Exec(ctx, statement, args...)
	return Failed(err)
}

// Affect runs a statement that returns no rows, and returns the number of changed rows.
func (t Tx) Affect(ctx context.Context, statement string, args ...any) (int, error) {
	n, err := t.Session.Exec(ctx, statement, args...)
	return n, Failed(err)
}

// Query calls scan for each row that the statement returns.
func (t Tx) Query(ctx context.Context, scan func(*sql.Rows) error, statement string, args ...any) error {
	return Failed(t.Session.Query(ctx, scan, statement, args...))
}
