package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"drover/test/bench/lab"
)

// figures is a file of figures, read.
type figures struct {
	name   string
	text   string
	tables []sheet
}

// sheet is a table that was read.
type sheet struct{ lab.Table }

// newest reads the newest file of a kind; the names begin with the date.
func newest(dir, kind string) (*figures, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*-"+kind+".md"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("there are no figures of the kind %q in %s", kind, dir)
	}
	name := slices.Max(names)
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read figures: %w", err)
	}
	return parse(filepath.Base(name), string(data)), nil
}

// parse takes the tables out of a file of figures.
func parse(name, text string) *figures {
	f := &figures{name: name, text: text}
	inside := false
	for l := range strings.Lines(text) {
		row, is := strings.CutPrefix(strings.TrimSpace(l), "|")
		if !is {
			inside = false
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.TrimSuffix(row, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		switch {
		case !inside:
			f.tables = append(f.tables, sheet{lab.Table{Head: cells}})
			inside = true
		case strings.Trim(row, "-|") != "":
			f.tables[len(f.tables)-1].Add(cells...)
		}
	}
	return f
}

// after returns what follows the first mark, up to the end of its line or to a comma.
func (f *figures) after(mark string) string {
	_, rest, _ := strings.Cut(f.text, mark)
	return rest[:max(strings.IndexAny(rest, ",\n"), 0)]
}

// table finds a table by its first heading.
func (f *figures) table(heading string) (sheet, error) {
	for _, t := range f.tables {
		if t.Head[0] == heading {
			return t, nil
		}
	}
	return sheet{}, fmt.Errorf("%s has no table %q", f.name, heading)
}

// row returns the row that is called so, nil where there is none.
func (s sheet) row(name string) []string {
	if i := slices.IndexFunc(s.Rows, func(row []string) bool { return row[0] == name }); i >= 0 {
		return s.Rows[i]
	}
	return nil
}

// last returns the last row that begins so: of rows that differ in a number it has the largest.
func (s sheet) last(prefix string) ([]string, error) {
	for _, row := range slices.Backward(s.Rows) {
		if strings.HasPrefix(row[0], prefix) {
			return row, nil
		}
	}
	return nil, fmt.Errorf("no row begins with %q", prefix)
}

// cell finds a cell by the heading of its column.
func (s sheet) cell(row []string, heading string) (string, error) {
	i := slices.Index(s.Head, heading)
	if i < 0 || i >= len(row) {
		return "", fmt.Errorf("no column %q in the row %q", heading, row[0])
	}
	return row[i], nil
}
