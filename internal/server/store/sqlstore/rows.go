package sqlstore

import (
	"context"
	"database/sql"
	"strings"

	"drover/internal/server/store"
)

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
