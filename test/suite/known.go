package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// known are the tests of test/flaked.md, as "package test", with what has mended each; an empty mend says that nothing
// has. Of several rows of a test the last one counts.
type known map[string]string

// readKnown reads the table of a Markdown file: its columns are package, test, when, cause and mend.
func readKnown(path string) (known, error) {
	page, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known{}, nil
	}
	if err != nil {
		return nil, err
	}
	k := known{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) != 5 {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		k[cells[0]+" "+cells[1]] = strings.Trim(cells[4], "-—")
	}
	return k, nil
}

// unmended reports whether a test stands in the table without a mend. A test inside of another one counts as the outer.
func (k known) unmended(pkg, test string) bool {
	outer, _, _ := strings.Cut(test, "/")
	for _, name := range []string{test, outer} {
		if mend, stands := k[short(pkg)+" "+name]; stands && mend == "" {
			return true
		}
	}
	return false
}
