package gse

import "fmt"

// Misread is why a body cannot be acted on. It keeps what its text is made of, so that others can say it in another
// language.
type Misread struct {
	Format string
	Args   []any
}

func misreadf(format string, args ...any) error { return &Misread{format, args} }

// Error returns the text in English.
func (m *Misread) Error() string { return fmt.Sprintf(m.Format, m.Args...) }

func missing(field string) error { return misreadf("%s is missing", field) }
