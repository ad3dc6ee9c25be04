// Package term is how commands talk to a person or a script: forms of output, tables, words for values, messages, and
// the check of arguments and flags. It knows no server.
package term

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"drover/internal/config"
)

// The forms of output.
const (
	AsTable = "table"
	AsWide  = "wide"
	AsJSON  = "json"
	AsYAML  = "yaml"
	AsName  = "name"
	AsText  = "text" // for single things
	AsCSV   = "csv"  // the wide table for other programs
)

// Output is the form that a command's data has.
type Output struct {
	Form      string
	NoHeaders bool
	// colour is auto, always or never.
	Colour string
}

// Flags adds -o with the given forms, the first of which is the default. If one of them is a table, it adds
// --no-headers.
func (o *Output) Flags(cmd *cobra.Command, forms ...string) {
	cmd.Flags().StringVarP(&o.Form, "output", "o", forms[0], "output format: "+OrList(forms))
	if slices.Contains(forms, AsTable) {
		cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "leave out the header line")
	}
	Complete(cmd, "output", forms...)
	cmd.PreRunE = Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		return OneOf("--output", o.Form, forms...)
	})
}

// Column is one column of a table.
type Column[T any] struct {
	Head string
	Cell func(T) string
	// wide says that only -o wide shows it.
	Wide bool
	// state says that the cell is a word of state, which has a colour.
	State bool
}

// PrintList prints a list in the chosen form.
func PrintList[T any](cmd *cobra.Command, o Output, items []T, columns []Column[T],
	name func(T) string,
) error {
	w := cmd.OutOrStdout()
	switch o.Form {
	case AsJSON, AsYAML:
		if items == nil {
			items = []T{}
		}
		return PrintValue(w, o.Form, items)
	case AsName:
		seen := map[string]bool{}
		for _, item := range items {
			if n := name(item); !seen[n] {
				seen[n] = true
				if _, err := fmt.Fprintln(w, Printable(n)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if o.Form == AsCSV {
		return printCSV(w, o, items, columns)
	}
	t := TableOf(o, w, columns)
	if !o.NoHeaders && len(items) > 0 {
		t.Add(Heads(columns, o.Form == AsWide)...)
	}
	for _, item := range items {
		t.Add(Cells(columns, o.Form == AsWide, item)...)
	}
	return t.Write(w)
}

// printCSV prints all columns as RFC 4180 says.
func printCSV[T any](w io.Writer, o Output, items []T, columns []Column[T]) error {
	c := csv.NewWriter(w)
	var rows [][]string
	if !o.NoHeaders {
		rows = append(rows, Heads(columns, true))
	}
	for _, item := range items {
		cells := Cells(columns, true, item)
		for i, cell := range cells {
			cells[i] = Printable(cell)
		}
		rows = append(rows, cells)
	}
	return c.WriteAll(rows)
}

// TableOf returns a table with the columns, without a row.
func TableOf[T any](o Output, w io.Writer, columns []Column[T]) Table {
	t := Table{coloured: o.Coloured(w)}
	n := 0
	for _, c := range columns {
		if c.Wide && o.Form != AsWide {
			continue
		}
		if n++; c.State {
			t.state = n
		}
	}
	return t
}

// Heads returns the headers of the columns, without the wide ones unless wide is set.
func Heads[T any](columns []Column[T], wide bool) (all []string) {
	for _, c := range columns {
		if !c.Wide || wide {
			all = append(all, c.Head)
		}
	}
	return all
}

// Cells returns the cells of an item, without the wide columns unless wide is set.
func Cells[T any](columns []Column[T], wide bool, item T) (all []string) {
	for _, c := range columns {
		if !c.Wide || wide {
			all = append(all, c.Cell(item))
		}
	}
	return all
}

// PrintValue writes JSON or YAML, with the same names in the same order.
func PrintValue(w io.Writer, form string, v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("cannot encode output: %w", err)
	}
	text := harmless(b.String(), form == AsYAML)
	if form == AsYAML {
		data, err := yaml.JSONToYAML([]byte(text))
		if err != nil {
			return fmt.Errorf("cannot encode output: %w", err)
		}
		text = string(data)
	}
	_, err := io.WriteString(w, text)
	return err
}

// HarmlessJSON returns JSON without characters that move the cursor of a terminal.
func HarmlessJSON(text string) string { return harmless(text, false) }

// harmless returns JSON without characters that move the cursor of a terminal: it replaces each by its escape, such as
// \u009b. With visible set, the escapes also survive a conversion of the JSON to another form, except those of a
// newline and a tab.
func harmless(text string, visible bool) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\\':
			size = 2
			if next := text[i+1]; visible && (next == 'b' || next == 'f' || next == 'r' || next == 'u' &&
				controls(text[i+2:i+6])) {
				b.WriteByte('\\')
			}
			b.WriteString(text[i : i+size])
		case r == 0x7f || r >= 0x80 && unicode.IsControl(r):
			if visible {
				b.WriteByte('\\')
			}
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// controls reports whether four hexadecimal digits encode a control character.
func controls(digits string) bool {
	n, err := strconv.ParseUint(digits, 16, 16)
	return err == nil && unicode.IsControl(rune(n)) && n != '\n' && n != '\t'
}

// Table is rows of cells, written in columns as wide as their widest cell.
type Table struct {
	rows     [][]string
	coloured bool
	// state is the number of the column with words of state, counted from 1; 0 means none.
	state int
	// widths are the widths of earlier rows: columns only widen.
	widths []int
}

// Add adds a row. Control characters are replaced, and an empty cell is a dash.
func (t *Table) Add(cells ...string) {
	for i, c := range cells {
		if cells[i] = Printable(c); cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// Write writes the rows that were added since it was last called.
func (t *Table) Write(w io.Writer) error {
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			padding := ""
			if i < len(row)-1 {
				padding = strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+2)
			}
			if t.coloured && i+1 == t.state {
				cell = Paint(cell)
			}
			b.WriteString(cell + padding)
		}
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(w, b.String())
	return err
}

// Paint gives a word of state its colour; the word alone says it too.
func Paint(word string) string {
	colour := ""
	switch strings.TrimSuffix(word, " (stale)") {
	case "running", "online", "ok", "open":
		colour = "32"
	case "starting", "operating", "stopping", "backoff", "pending", "unknown", "warning", "stale":
		colour = "33"
	case "given-up", "flapping", "unhealthy", "not-ready", "critical", "away", "failed", "failing", "denied",
		"disabled":
		colour = "31"
	default:
		return word
	}
	return "\x1b[" + colour + "m" + word + "\x1b[0m"
}

// Coloured reports whether a stream takes colours.
func (o Output) Coloured(w io.Writer) bool {
	switch o.Colour {
	case "always":
		return true
	case "never":
		return false
	}
	noColour, dumb := config.PlainTerminal()
	return !noColour && !dumb && IsTerminal(w)
}

// Field is a line of a text: its name and its value.
type Field [2]string

// WriteFields writes the fields that have a value, their names set to the right.
func WriteFields(w io.Writer, fields []Field) error {
	width := 0
	for _, f := range fields {
		if f[1] != "" {
			width = max(width, len(f[0]))
		}
	}
	for _, f := range fields {
		if f[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "  %*s: %s\n", width, f[0], Printable(f[1])); err != nil {
			return err
		}
	}
	return nil
}
