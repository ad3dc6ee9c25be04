package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
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
	cmd.Flags().StringVarP(&o.form, "output", "o", forms[0], "form of the output: "+orList(forms))
	if slices.Contains(forms, asTable) {
		cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave the line of headers out")
	}
	complete(cmd, "output", forms...)
	cmd.PreRunE = chain(cmd.PreRunE, func(*cobra.Command, []string) error { return oneOf("--output", o.form, forms...) })
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
func printList[T any](cmd *cobra.Command, s *session, o output, items []T, columns []column[T], name func(T) string) error {
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
	t := table{coloured: s.coloured(w)}
	var heads []string
	for _, c := range columns {
		if !c.wide || o.form == asWide {
			heads = append(heads, c.head)
		}
	}
	if !o.noHeaders && len(items) > 0 {
		t.add(heads...)
	}
	for _, item := range items {
		var cells []string
		for _, c := range columns {
			if c.wide && o.form != asWide {
				continue
			}
			if c.state {
				t.state = len(cells) + 1
			}
			cells = append(cells, c.cell(item))
		}
		t.add(cells...)
	}
	return t.write(w)
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
	text := b.String()
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

// table is rows of cells, written in columns as wide as their widest cell.
type table struct {
	rows     [][]string
	coloured bool
	// state is the number of the column with words of state, from 1; 0: none.
	state int
}

func (t *table) add(cells ...string) {
	for i, c := range cells {
		if cells[i] = printable(c); cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			padding := ""
			if i < len(row)-1 {
				padding = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
			if t.coloured && i+1 == t.state {
				cell = paint(cell)
			}
			b.WriteString(cell + padding)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// paint gives a word of state its colour; the word alone says it too.
func paint(word string) string {
	colour := ""
	switch strings.TrimSuffix(word, " (stale)") {
	case "running", "online", "ok":
		colour = "32"
	case "starting", "operating", "backoff", "pending", "unknown":
		colour = "33"
	case "given-up", "away", "failed", "denied", "disabled":
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
