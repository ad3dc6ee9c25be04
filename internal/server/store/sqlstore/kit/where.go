package kit

import (
	"strings"

	"drover/internal/server/store/sqldb"
	"drover/internal/wildcard"
)

// Where collects conditions and their parameters.
type Where struct {
	Dialect *sqldb.Dialect
	Text    []string
	Args    []any
}

// Add adds a condition with its arguments.
func (w *Where) Add(condition string, args ...any) {
	w.Text = append(w.Text, condition)
	w.Args = append(w.Args, args...)
}

// When adds a condition if wanted is true.
func (w *Where) When(wanted bool, condition string, args ...any) {
	if wanted {
		w.Add(condition, args...)
	}
}

// Whether adds the condition if wanted is true, and its negation if wanted is false; nil adds nothing.
func (w *Where) Whether(wanted *bool, condition string) {
	switch {
	case wanted == nil:
	case *wanted:
		w.Add(condition)
	default:
		w.Add("NOT (" + condition + ")")
	}
}

// All returns the conditions for a WHERE. The number of distinct texts is the number of combinations of conditions, so
// each statement can stay prepared.
func (w *Where) All() string { return strings.Join(w.Text, " AND ") }

// Pattern adds a condition on a column. It compares a pattern without wildcards for equality, so that an index can
// serve it.
func (w *Where) Pattern(column, pattern string) {
	switch {
	case pattern == "":
	case !wildcard.IsPattern(pattern):
		w.Add(column+" = ?", pattern)
	default:
		w.Add(column+" "+w.Dialect.Match+" ?", w.Dialect.Pattern(pattern))
	}
}

// digits are the characters of the number at the end of the name of a copy.
const digits = "'0123456789'"

// Names adds the condition that a column of names matches a pattern, or with copies is the name of a copy of a match.
func (w *Where) Names(column, pattern string, copies bool) {
	switch {
	case pattern == "" || !copies:
		w.Pattern(column, pattern)
	case wildcard.IsPattern(pattern):
		w.Add("("+column+" "+w.Dialect.Match+" ? OR rtrim("+column+", "+digits+") "+w.Dialect.Match+" ?)",
			w.Dialect.Pattern(pattern), w.Dialect.Pattern(pattern+"@"))
	default:
		w.Name(column, pattern, copies)
	}
}

// Name adds the condition that a column is a name, or with copies the name of a copy of it. The range serves an index:
// in ASCII a colon follows the digits.
func (w *Where) Name(column, name string, copies bool) {
	if !copies {
		w.Add(column+" = ?", name)
		return
	}
	w.Add(column+" >= ? AND "+column+" < ? AND ("+column+" = ? OR rtrim("+column+", "+digits+") = ?)",
		name, name+"@:", name, name+"@")
}

// Within adds the condition that a column matches one of the patterns; nil matches all.
func (w *Where) Within(column string, patterns []string) {
	if patterns != nil {
		w.Add("EXISTS (SELECT 1 FROM texts(?) p WHERE "+column+" "+w.Dialect.Match+" p.value)",
			w.Dialect.Patterns(patterns))
	}
}

// Among adds the condition that a column has one of the values.
func (w *Where) Among(column string, values []string) {
	w.Add(column+" IN (SELECT value FROM texts(?) j)", w.Dialect.Texts(values))
}
