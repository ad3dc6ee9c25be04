package sqlite

import (
	"context"
	"strings"
)

// insert describes a multi-row insert: head is "INSERT INTO t (…) VALUES", row one row with its own parameters written as "?", behind
// those that all rows share, which are written as "?1", "?2" and so on.
type insert struct {
	head, row string
	// width is how many parameters of its own a row has.
	width int
	// shared are the values of the parameters that all rows share.
	shared []any
}

// run inserts rows whose own parameters lie one after another in args, with few statements: their sizes are powers of four, so that
// any number of rows needs only a handful of prepared texts.
func (i insert) run(ctx context.Context, tx *tx, args []any) error {
	for size := 256; size > 0; size /= 4 {
		query := ""
		for len(args) >= size*i.width {
			if query == "" {
				query = i.head + strings.TrimSuffix(strings.Repeat(i.row+",", size), ",")
			}
			values := make([]any, 0, len(i.shared)+size*i.width)
			values = append(append(values, i.shared...), args[:size*i.width]...)
			if err := tx.exec(ctx, query, values...); err != nil {
				return err
			}
			args = args[size*i.width:]
		}
	}
	return nil
}
