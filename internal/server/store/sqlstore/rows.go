package sqlstore

import (
	"context"
	"database/sql"

	"drover/internal/server/store"
)

// scanFunc reads the row that rows stands on.
type scanFunc[T any] func(rows *sql.Rows) (T, error)

// all returns what the rows of a query hold, in their order; nil where there is none.
func all[T any](ctx context.Context, query queryFunc, scan scanFunc[T], text string, args ...any) ([]T, error) {
	var list []T
	err := query(ctx, func(rows *sql.Rows) error {
		v, err := scan(rows)
		list = append(list, v)
		return err
	}, text, args...)
	return list, err
}

// one returns what the only row of a query holds, or store.ErrNotFound where there is none.
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

// altered reads the only row of a query, locked, has alter change and store it, and returns it, all in one transaction.
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

// affected turns a change of a row that is not there into ErrNotFound.
func affected(n int, err error) error {
	if err == nil && n == 0 {
		return store.ErrNotFound
	}
	return err
}
