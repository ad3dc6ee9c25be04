package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

// liveTable prints rows one after another, as they come: a table whose columns widen with what comes, or a line of JSON
// each.
type liveTable[T any] struct {
	out     io.Writer
	output  output
	columns []column[T]
	table   table
}

// newLiveTable returns one whose first columns have at least the given widths.
func newLiveTable[T any](cmd *cobra.Command, s *session, o output, columns []column[T], widths ...int) *liveTable[T] {
	l := &liveTable[T]{out: cmd.OutOrStdout(), output: o, columns: columns}
	l.table = tableOf(s, l.out, columns, o.form == asWide)
	l.table.widths = widths
	if !o.noHeaders {
		l.table.add(heads(columns, o.form == asWide)...)
	}
	return l
}

// print writes one row, with the headers before the first.
func (l *liveTable[T]) print(item T) error {
	if l.output.form == asJSON {
		e := json.NewEncoder(l.out)
		e.SetEscapeHTML(false)
		return e.Encode(item)
	}
	l.table.add(cells(l.columns, l.output.form == asWide, item)...)
	return l.table.write(l.out)
}
