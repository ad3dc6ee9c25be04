package kit

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"drover/internal/server/store"
)

// Hash returns a number for a text in an index. Texts with the same hash share a lane or a lock, which costs only
// needless waits.
func Hash(s string) int64 {
	sum := sha256.Sum256([]byte(s))
	return int64(binary.LittleEndian.Uint64(sum[:8]))
}

// Encode returns v as a JSON column, null for a nil pointer.
func Encode[T any](v *T) (sql.NullString, error) {
	if v == nil {
		return sql.NullString{}, nil
	}
	text, err := json.Marshal(v)
	return sql.NullString{String: string(text), Valid: true}, err
}

// Decode reads a column that Encode wrote; nil for null.
func Decode[T any](text []byte) (*T, error) {
	if text == nil {
		return nil, nil
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("cannot decode %T: %w", v, err)
	}
	return v, nil
}

// OptionalJSON returns a change of selections as JSON for a column; nil, which is null, if there is no change.
func OptionalJSON(c *store.SelectionChange) (any, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	text, err := json.Marshal(c)
	return string(text), err
}

// OptionalNanos returns a time for a column, in Unix nanoseconds; 0 for the zero time.
func OptionalNanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return Nanos(t)
}

// OptionalMoment returns the time of a column; the zero time for 0.
func OptionalMoment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return Moment(n)
}

// Flag returns a boolean for a column: 1 or 0.
func Flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}

// Wrapped adds what failed to an error; nil stays nil.
func Wrapped(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Nanos returns a time for a column: Unix nanoseconds, 0 for the zero time.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Moment returns the time of a column in Unix nanoseconds; the zero time for 0.
func Moment(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// QueryFunc is the type of the methods Tx.Query and DB.Query.
type QueryFunc func(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error

// scanFunc reads the current row of rows.
type scanFunc[T any] func(rows *sql.Rows) (T, error)

// Column is the scanFunc of a row that has one column.
func Column[T any](rows *sql.Rows) (v T, err error) {
	err = rows.Scan(&v)
	return v, err
}

// All returns the rows of a query in their order; nil if there are no rows.
func All[T any](ctx context.Context, query QueryFunc, scan scanFunc[T], text string, args ...any) ([]T, error) {
	var list []T
	err := query(ctx, func(rows *sql.Rows) error {
		v, err := scan(rows)
		list = append(list, v)
		return err
	}, text, args...)
	return list, err
}

// One returns the only row of a query, or store.ErrNotFound if there is no row.
func One[T any](ctx context.Context, query QueryFunc, scan scanFunc[T], text string, args ...any) (T, error) {
	list, err := All(ctx, query, scan, text, args...)
	if err == nil && len(list) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		var none T
		return none, err
	}
	return list[0], nil
}

// Altered reads and locks the only row of a query, calls alter on the row in the same transaction, and returns the row.
// alter must store its changes. A missing row is store.ErrNotFound.
func Altered[T any](ctx context.Context, db *DB, scan scanFunc[T], text string, key string,
	alter func(context.Context, Tx, *T) error,
) (T, error) {
	var row T
	err := db.Write(ctx, func(ctx context.Context, tx Tx) (err error) {
		if row, err = One(ctx, tx.Query, scan, text+db.Dialect.Locked, key); err != nil {
			return err
		}
		return alter(ctx, tx, &row)
	})
	return row, err
}

// Inserted turns an insert that changed nothing into ErrExists.
func Inserted(n int, err error) error {
	if err == nil && n == 0 {
		return store.ErrExists
	}
	return err
}

// Affected turns a change of a missing row into ErrNotFound.
func Affected(n int, err error) error {
	if err == nil && n == 0 {
		return store.ErrNotFound
	}
	return err
}

// RowValues is a statement with the values of many rows.
type RowValues struct {
	// Head is the text up to "VALUES"; Tail is the text after the rows.
	Head, Tail string
	// Row is the text of one row. It writes its own parameters as "?", and the parameters that all rows share as "?1",
	// "?2" and so on, once each.
	Row string
	// Shared are the values of the shared parameters.
	Shared []any
	// Scan reads each row that the statement returns; it may be nil.
	Scan func(*sql.Rows) error
}

// Run runs the statement for rows whose own parameters follow one another in args. It uses statement sizes that are
// powers of four, so any number of rows needs only a few prepared texts.
func (v RowValues) Run(ctx context.Context, tx Tx, args []any) error {
	width := strings.Count(v.Row, "?") - len(v.Shared)
	for size := 256; size > 0; size /= 4 {
		query := ""
		for len(args) >= size*width {
			if query == "" {
				query = v.Head + strings.TrimSuffix(strings.Repeat(v.Row+",", size), ",") + v.Tail
			}
			values := make([]any, 0, len(v.Shared)+size*width)
			values = append(append(values, v.Shared...), args[:size*width]...)
			if err := v.runOnce(ctx, tx, query, values); err != nil {
				return err
			}
			args = args[size*width:]
		}
	}
	return nil
}

func (v RowValues) runOnce(ctx context.Context, tx Tx, query string, values []any) error {
	if v.Scan == nil {
		return tx.Exec(ctx, query, values...)
	}
	return tx.Query(ctx, v.Scan, query, values...)
}

// Optional returns a value, or null if valid is false. It is cheaper than a sql.Null, whose Value method a driver has
// to call.
func Optional[T int64 | string](v T, valid bool) any {
	if !valid {
		return nil
	}
	return v
}
