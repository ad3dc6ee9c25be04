package sqlstore

import (
	"context"
	"database/sql"
	"strings"
)

// insert describes a multi-row insert: head is "INSERT INTO t (…) VALUES", row one row with its own parameters written
// as "?", behind those that all rows share, which are written as "?1", "?2" and so on.
type insert struct {
	head, row string
	// width is how many parameters of its own a row has.
	width int
	// shared are the values of the parameters that all rows share.
	shared []any
}

// run inserts rows whose own parameters lie one after another in args.
func (i insert) run(ctx context.Context, tx tx, args []any) error {
	return many(i).each(args, func(query string, values []any) error { return tx.exec(ctx, query, values...) })
}

// update describes an update of many rows, each to values of its own: head is all up to "VALUES", tail what follows the
// rows.
type update struct {
	insert
	tail string
}

// run updates the rows whose parameters lie one after another in args, and calls scan for each row that the tail
// returns.
func (u update) run(ctx context.Context, tx tx, args []any, scan func(*sql.Rows) error) error {
	return many(u.insert).each(args, func(query string, values []any) error {
		return tx.query(ctx, scan, query+u.tail, values...)
	})
}

// many is a statement over many rows of parameters.
type many insert

// each calls do with the texts and the parameters of few statements for all the rows: their sizes are powers of four,
// so that any number of rows needs only a handful of prepared texts.
func (m many) each(args []any, do func(query string, values []any) error) error {
	for size := 256; size > 0; size /= 4 {
		query := ""
		for len(args) >= size*m.width {
			if query == "" {
				query = m.head + strings.TrimSuffix(strings.Repeat(m.row+",", size), ",")
			}
			values := make([]any, 0, len(m.shared)+size*m.width)
			values = append(append(values, m.shared...), args[:size*m.width]...)
			if err := do(query, values); err != nil {
				return err
			}
			args = args[size*m.width:]
		}
	}
	return nil
}
