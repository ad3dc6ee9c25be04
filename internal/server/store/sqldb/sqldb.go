// Package sqldb is the seam between the statements of the store (package sqlstore) and the databases that run them
// (packages sqlite and postgres). It owns the interface of a database, the dialects, and the migration of a schema. It
// knows no table and no statement of the store.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"iter"
)

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

// ErrFull is the error of a Backend, wrapped or not, for a write that finds no room on the disk.
var ErrFull = errors.New("no space left on device")

type urgentKey struct{}

// Urgently marks writes that may use the disk space that a Backend keeps in reserve.
func Urgently(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// Urgent reports whether a write is marked as urgent.
func Urgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }

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

// Table is a table to copy from one database to another.
type Table struct {
	Name    string
	Columns []string
}

// Source is a database to copy, as of one moment.
type Source interface {
	// Tables returns all tables of the state; a table comes after the tables that it refers to.
	Tables(ctx context.Context) ([]Table, error)
	// Rows yields the rows of a table. The values are nil, int64, float64 or string. Nothing follows an error.
	Rows(ctx context.Context, t Table) iter.Seq2[[]any, error]
}
