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

	"github.com/charmbracelet/x/ansi"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"drover/internal/config"
	"drover/internal/process"
	"drover/internal/words"
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
	// Colour is auto, always or never.
	Colour string
	// cmd is the command whose output it is; nil before its flags are added.
	cmd *cobra.Command
}

// Lang returns the language of what is printed to a stream for people.
func (o Output) Lang(w io.Writer) words.Lang {
	if o.cmd == nil {
		return words.English
	}
	return Lang(o.cmd, w)
}

// Flags adds -o with the given forms, the first of which is the default. If one of them is a table, it adds
// --no-headers.
func (o *Output) Flags(cmd *cobra.Command, forms ...string) {
	o.cmd = cmd
	cmd.Flags().StringVarP(&o.Form, "output", "o", forms[0], "output format: "+process.OrList(forms))
	if slices.Contains(forms, AsTable) {
		cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "leave out the header line")
	}
	Complete(cmd, "output", forms...)
	cmd.PreRunE = Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		return OneOf("--output", o.Form, forms...)
	})
}

// ListFlags adds the flags of Flags for a list, which also has the forms csv, jsonpath=PATH and custom-columns=SPEC.
func (o *Output) ListFlags(cmd *cobra.Command, forms ...string) {
	o.cmd = cmd
	forms = append(slices.Clone(forms), AsCSV)
	shown := append(slices.Clone(forms), asPath+"PATH", asColumns+"HEAD:PATH,...")
	cmd.Flags().StringVarP(&o.Form, "output", "o", forms[0], "output format: "+process.OrList(shown))
	cmd.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "leave out the header line")
	Complete(cmd, "output", append(slices.Clone(forms), asPath, asColumns)...)
	cmd.PreRunE = Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		if known, err := checkForm(o.Form); err != nil {
			return Usagef("--output: %w", err)
		} else if known {
			return nil
		}
		return OneOf("--output", o.Form, shown...)
	})
}

// Structured reports whether the form is one of the whole value, and not of a table.
func (o *Output) Structured() bool {
	return o.Form == AsJSON || o.Form == AsYAML || strings.HasPrefix(o.Form, asPath)
}

// Column is one column of a table.
type Column[T any] struct {
	Head string
	Cell func(T) string
	// Wide says that only -o wide shows it.
	Wide bool
	// State says that the cell is a word of state, which has a colour.
	State bool
	// Words returns what people read in place of an id; nil if the cell holds no id. English tables hold ids.
	Words func(id string, l words.Lang) string
}

// PrintList prints a list in the chosen form.
func PrintList[T any](cmd *cobra.Command, o Output, items []T, columns []Column[T],
	name func(T) string,
) error {
	w := cmd.OutOrStdout()
	if columns, own := strings.CutPrefix(o.Form, asColumns); own {
		return printColumns(w, o, columns, items)
	}
	switch {
	case o.Structured():
		if items == nil {
			items = []T{}
		}
		return PrintValue(w, o.Form, items)
	case o.Form == AsName:
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
		t.Add(t.Heads()...)
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
			cells[i] = inert(Printable(cell))
		}
		rows = append(rows, cells)
	}
	return c.WriteAll(rows)
}

// inert makes a text of a cell: a spreadsheet would run one that begins like a formula. Numbers
// stay numbers.
func inert(cell string) string {
	if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && strings.IndexByte("=+-@\t\r", cell[0]) >= 0 {
		return "'" + cell
	}
	return cell
}

// TableOf returns a table with the columns, without a row.
func TableOf[T any](o Output, w io.Writer, columns []Column[T]) Table {
	t := Table{coloured: o.Coloured(w), lang: o.Lang(w), named: map[cellID]bool{}}
	t.heads = Heads(columns, o.Form == AsWide)
	prose := []string{
		"MESSAGE", "WHY", "REASON", "CAUSE", "PROCESS", "PROCESSES", "NOTES", "HOSTED", "SIGNED", "NAMES USERS",
	}
	for i, head := range t.heads {
		if slices.Contains(prose, head) {
			t.prose = append(t.prose, i)
		}
	}
	n := 0
	for _, c := range columns {
		if c.Wide && o.Form != AsWide {
			continue
		}
		if n++; c.State {
			t.state = n
		}
		t.words = append(t.words, c.Words)
	}
	return t
}

// Heads returns the heads of the columns, in the language of the table.
func (t *Table) Heads() (all []string) {
	for _, h := range t.heads {
		all = append(all, words.Column(h, t.lang))
	}
	return all
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

// PrintValue writes JSON or YAML, with the same names in the same order, or what a path names in the JSON.
func PrintValue(w io.Writer, form string, v any) error {
	if at, ok := strings.CutPrefix(form, asPath); ok {
		return printPath(w, at, v)
	}
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
	// widths are the widths of earlier rows, in cells of a terminal: columns only widen.
	widths []int
	lang   words.Lang
	heads  []string
	// prose are the columns with sentences, counted from 0.
	prose []int
	// words are the functions of the columns that hold ids.
	words []func(id string, l words.Lang) string
	// named are the ids that stand beside their words in an earlier row.
	named map[cellID]bool
}

// cellID is an id in a column.
type cellID struct {
	column int
	id     string
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
	shown := make([][]string, len(t.rows))
	for n, row := range t.rows {
		shown[n] = t.translated(row)
		for i, cell := range shown[n] {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], ansi.StringWidthWc(cell))
		}
	}
	var b strings.Builder
	for n, row := range shown {
		for i, cell := range row {
			padding := ""
			if i < len(row)-1 {
				padding = strings.Repeat(" ", t.widths[i]-ansi.StringWidthWc(cell)+2)
			}
			if t.coloured && i+1 == t.state {
				cell = PaintAs(t.rows[n][i], cell)
			}
			b.WriteString(cell + padding)
		}
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(w, b.String())
	return err
}

// translated returns a row in the language of the table and the local time zone. An id stands beside its first word.
func (t *Table) translated(row []string) []string {
	row = slices.Clone(row)
	for i, cell := range row {
		switch {
		case slices.Contains(t.prose, i):
			row[i] = Local(words.Line(cell, t.lang))
		case t.lang == words.English:
		case i+1 == t.state:
			id, stale := strings.CutSuffix(cell, staleMark)
			if row[i] = words.Named(id, t.lang); t.named[cellID{i, id}] {
				row[i] = words.State(id).In(t.lang)
			}
			t.named[cellID{i, id}] = true
			if stale {
				row[i] += "（" + words.State("stale").In(t.lang) + "）"
			}
		case i < len(t.words) && t.words[i] != nil:
			if text := t.words[i](cell, t.lang); text != cell {
				if row[i] = text; !t.named[cellID{i, cell}] {
					row[i] += " " + cell
				}
				t.named[cellID{i, cell}] = true
			}
		}
	}
	return row
}

// staleMark follows a state that may have changed since.
const staleMark = " (stale)"

// Paint gives a word of state its colour; the word alone says it too.
func Paint(word string) string { return PaintAs(word, word) }

// PaintAs gives a text the colour of a word of state.
func PaintAs(word, text string) string {
	id := word
	if strings.HasSuffix(word, staleMark) {
		id = "stale"
	}
	colour := Rendition(words.ClassOf(id))
	if colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Rendition is the colour of a class of states (ECMA-48, SGR); empty for a class without one.
func Rendition(c words.Class) string {
	switch c {
	case words.Good:
		return "32"
	case words.Busy:
		return "34"
	case words.Warn:
		return "33"
	case words.Bad:
		return "31"
	case words.Unsure:
		return "35"
	case words.Idle:
	}
	return ""
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

// spoken are the fields with words of drover. The others hold names, and what people have written.
func spoken() []string {
	return []string{"Hosted", "Started", "Last start", "Reported", "Host", "Failing since", "Version"}
}

// Lines is what an agent has said, for a person: one line, and what a program has written in lines of its own, which
// begin with indent.
func Lines(said, indent string, l words.Lang) string {
	text, _ := words.Sentence(said, l)
	text, output, written := strings.Cut(text, "\n")
	text = Printable(Local(text))
	if written {
		for line := range strings.SplitSeq(output, "\n") {
			text += "\n" + indent + Printable(line)
		}
	}
	return text
}

// WriteFields writes the fields that have a value, their names set to the right.
func (o Output) WriteFields(w io.Writer, fields []Field) error {
	lang, longest := o.Lang(w), 0
	shown := make([]Field, 0, len(fields))
	for _, f := range fields {
		if f[1] == "" {
			continue
		}
		text := f[1]
		f[1] = Printable(f[1])
		switch {
		case f[0] == "Message":
			f[1] = Lines(text, "    ", lang)
		case slices.Contains(spoken(), f[0]):
			f[1] = words.Message(f[1], lang)
		}
		f[0] = words.Column(f[0], lang)
		longest = max(longest, ansi.StringWidthWc(f[0]))
		shown = append(shown, f)
	}
	for _, f := range shown {
		if _, err := fmt.Fprintf(w, "  %s%s: %s\n", strings.Repeat(" ", longest-ansi.StringWidthWc(f[0])), f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}
