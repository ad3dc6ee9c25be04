package term

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

// LiveTable prints rows one after another, as they arrive: a table whose columns widen with the rows, or one line of
// JSON each.
type LiveTable[T any] struct {
	out     io.Writer
	output  Output
	columns []Column[T]
	table   Table
}

// NewLiveTable returns a table whose first columns have at least the given widths.
func NewLiveTable[T any](cmd *cobra.Command, o Output, columns []Column[T], widths ...int) *LiveTable[T] {
	l := &LiveTable[T]{out: cmd.OutOrStdout(), output: o, columns: columns}
	l.table = TableOf(o, l.out, columns)
	l.table.widths = widths
	if !o.NoHeaders {
		l.table.Add(l.table.Heads()...)
	}
	return l
}

// Print writes one row, with the headers before the first.
func (l *LiveTable[T]) Print(item T) error {
	if l.output.Form == AsJSON {
		e := json.NewEncoder(l.out)
		e.SetEscapeHTML(false)
		return e.Encode(item)
	}
	l.table.Add(Cells(l.columns, l.output.Form == AsWide, item)...)
	return l.table.Write(l.out)
}
