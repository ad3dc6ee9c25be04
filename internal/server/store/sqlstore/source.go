package sqlstore

import (
	"context"
	"iter"
)

// Table is a table that is copied from one database to another.
type Table struct {
	Name    string
	Columns []string
}

// Source is a database that is copied, as it is at one moment.
type Source interface {
	// Tables returns all that hold the state, those that others refer to first.
	Tables(ctx context.Context) ([]Table, error)
	// Rows goes through a table. The values are nil, int64, float64 or string. Nothing follows an error.
	Rows(ctx context.Context, t Table) iter.Seq2[[]any, error]
}
