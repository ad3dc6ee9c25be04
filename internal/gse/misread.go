package gse

import "fmt"

// Misread says why a body cannot be processed. It keeps the format and the arguments of its text, so that others can
// translate it.
type Misread struct {
	Format string
	Args   []any
}

func misreadf(format string, args ...any) error { return &Misread{format, args} }

// Error returns the text in English.
func (m *Misread) Error() string { return fmt.Sprintf(m.Format, m.Args...) }

func missing(field string) error { return misreadf("%s is missing", field) }
