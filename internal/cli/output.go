package cli

import (
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
)

// The forms of output.
const (
	asTable = "table"
	asWide  = "wide"
	asJSON  = "json"
	asYAML  = "yaml"
	asName  = "name"
)

// output is the form that a command's data has.
type output struct {
	form      string
	noHeaders bool
}

// flags adds -o with the given forms, the first of which is the default, and --no-headers where there is a table.
func (o *output) flags(cmd *cobra.Command, forms ...string) {
	cmd.Flags().StringVarP(&o.form, "output", "o", forms[0], "output format: "+orList(forms))
	if slices.Contains(forms, asTable) {
		cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave out the header line")
	}
	complete(cmd, "output", forms...)
	cmd.PreRunE = chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		return oneOf("--output", o.form, forms...)
	})
}

// complete offers fixed values for a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that is not there, which the completion test would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// column is one column of a table.
type column[T any] struct {
	head string
	cell func(T) string
	// wide says that only -o wide shows it.
	wide bool
	// state says that the cell is a word of state, which has a colour.
	state bool
}

// printList writes a list in the form that is asked for.
func printList[T any](cmd *cobra.Command, s *session, o output, items []T, columns []column[T],
	name func(T) string,
) error {
	w := cmd.OutOrStdout()
	switch o.form {
	case asJSON, asYAML:
		if items == nil {
			items = []T{}
		}
		return printValue(w, o.form, items)
	case asName:
		seen := map[string]bool{}
		for _, item := range items {
			if n := name(item); !seen[n] {
				seen[n] = true
				if _, err := fmt.Fprintln(w, printable(n)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	t := tableOf(s, w, columns, o.form == asWide)
	if !o.noHeaders && len(items) > 0 {
		t.add(heads(columns, o.form == asWide)...)
	}
	for _, item := range items {
		t.add(cells(columns, o.form == asWide, item)...)
	}
	return t.write(w)
}

// tableOf returns a table with the columns, without a row.
func tableOf[T any](s *session, w io.Writer, columns []column[T], wide bool) table {
	t := table{coloured: s.coloured(w)}
	n := 0
	for _, c := range columns {
		if c.wide && !wide {
			continue
		}
		if n++; c.state {
			t.state = n
		}
	}
	return t
}

func heads[T any](columns []column[T], wide bool) (all []string) {
	for _, c := range columns {
		if !c.wide || wide {
			all = append(all, c.head)
		}
	}
	return all
}

func cells[T any](columns []column[T], wide bool, item T) (all []string) {
	for _, c := range columns {
		if !c.wide || wide {
			all = append(all, c.cell(item))
		}
	}
	return all
}

// printValue writes JSON or YAML, with the same names in the same order.
func printValue(w io.Writer, form string, v any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("cannot encode output: %w", err)
	}
	text := harmless(b.String(), form == asYAML)
	if form == asYAML {
		data, err := yaml.JSONToYAML([]byte(text))
		if err != nil {
			return fmt.Errorf("cannot encode output: %w", err)
		}
		text = string(data)
	}
	_, err := io.WriteString(w, text)
	return err
}

// harmless returns JSON without characters that move the cursor of a terminal: each is written as its escape, such as
// \u009b. With visible set, the escapes stay what they are in whatever form the JSON is turned into, but for those of a
// line's end and a tab.
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

// table is rows of cells, written in columns as wide as their widest cell.
type table struct {
	rows     [][]string
	coloured bool
	// state is the number of the column with words of state, from 1; 0: none.
	state int
	// widths are the widths of earlier rows: columns only widen.
	widths []int
}

func (t *table) add(cells ...string) {
	for i, c := range cells {
		if cells[i] = printable(c); cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// write writes the rows that were added since it was last called.
func (t *table) write(w io.Writer) error {
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
				cell = paint(cell)
			}
			b.WriteString(cell + padding)
		}
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(w, b.String())
	return err
}

// paint gives a word of state its colour; the word alone says it too.
func paint(word string) string {
	colour := ""
	switch strings.TrimSuffix(word, " (stale)") {
	case "running", "online", "ok", "open":
		colour = "32"
	case "starting", "operating", "stopping", "backoff", "pending", "unknown", "warning", "stale":
		colour = "33"
	case "given-up", "flapping", "unhealthy", "critical", "away", "failed", "failing", "denied", "disabled":
		colour = "31"
	default:
		return word
	}
	return "\x1b[" + colour + "m" + word + "\x1b[0m"
}

// printable replaces what could steer a terminal: names and messages come from hosts and callers.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		default:
			return r
		}
	}, s)
}
