package sqlstore

import (
	"context"
	"iter"
)

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
