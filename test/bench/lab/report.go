package lab

import (
	"fmt"
	"io"
)

// Report is what a program has measured: tables, and notes below them.
type Report struct {
	parts []part
	notes []string
}

// part is a table with the words above it.
type part struct {
	lead  string
	table *Table
}

// Table adds a table, which is shown once it has a row; the lead stands above it.
func (r *Report) Table(lead string, head ...string) *Table {
	t := &Table{Head: head}
	r.parts = append(r.parts, part{lead, t})
	return t
}

// Note adds a line below the tables.
func (r *Report) Note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// write writes all of it as Markdown.
func (r *Report) write(w io.Writer, title, machine string) error {
	if _, err := fmt.Fprintf(w, "# %s\n\n%s\n", title, machine); err != nil {
		return err
	}
	for _, p := range r.parts {
		if len(p.table.Rows) == 0 {
			continue
		}
		if p.lead != "" {
			if _, err := fmt.Fprintf(w, "%s\n\n", p.lead); err != nil {
				return err
			}
		}
		if err := p.table.Markdown(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	for _, n := range r.notes {
		if _, err := fmt.Fprintf(w, "* %s\n", n); err != nil {
			return err
		}
	}
	return nil
}

// YesNo makes a no stand out.
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "**no**"
}
