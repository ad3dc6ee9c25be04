package sqlite

import (
	"context"
	"strings"
)

// insert describes a multi-row insert: head is "INSERT INTO t (…) VALUES", row one row with its parameters written as "?".
type insert struct {
	head, row string
	// width is how many parameters a row has.
	width int
}

// run inserts rows whose parameters lie one after another in args, with few statements: their sizes are powers of four, so that
// any number of rows needs only a handful of prepared texts.
func (i insert) run(ctx context.Context, tx *tx, args []any) error {
	for size := 256; size > 0; size /= 4 {
		query := ""
		for len(args) >= size*i.width {
			if query == "" {
				query = i.head + strings.TrimSuffix(strings.Repeat(i.row+",", size), ",")
			}
			if err := tx.exec(ctx, query, args[:size*i.width]...); err != nil {
				return err
			}
			args = args[size*i.width:]
		}
	}
	return nil
}
