package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// event is a line of what `go test -json` writes (go doc test2json).
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
	ImportPath  string
}

// result is how the tests of one package have ended.
type result struct {
	Package string
	Failed  bool
	// Cut says that the package did not end by itself: the whole run was ended.
	Cut bool
	// Seconds is the wall time of the whole package.
	Seconds float64
	// Fallen are the tests that failed, or did not end, without those that only contain such a test.
	Fallen []string
	// Passed counts tests, with those inside of other tests.
	Passed int
	// LeftOut are the tests that were skipped, and what the package itself said that it left out.
	LeftOut []string
	// Certain says why luck cannot be the cause of a fall; empty if luck may be.
	Certain string
	// Detector says that the race detector ended itself, and no test failed.
	Detector bool
	// Output is what the fallen tests and the package itself wrote.
	Output string
}

// read reads a record. A package that has no final event, because the run was cut off, has failed.
func read(path string) ([]result, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	packages, err := group(bufio.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	results := make([]result, 0, len(packages))
	for _, p := range packages {
		results = append(results, p.result())
	}
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.Package, b.Package) })
	return results, nil
}

// running is a package while its events are read.
type running struct {
	name    string
	ended   string
	seconds float64
	broken  bool
	passed  int
	skipped []string
	// tests that have not passed, in the order in which they began. "" is the package itself.
	order []string
	open  map[string]*strings.Builder
	race  bool
}

func group(r io.Reader) (map[string]*running, error) {
	packages, built := map[string]*running{}, map[string]*strings.Builder{}
	decoder := json.NewDecoder(r)
	for {
		var e event
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case errors.Is(err, io.ErrUnexpectedEOF): // the run was cut off
			return packages, nil
		case err != nil:
			return nil, err
		}
		if e.Action == "build-output" {
			text(built, e.ImportPath).WriteString(e.Output)
			continue
		}
		if e.Package == "" {
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &running{name: e.Package, open: map[string]*strings.Builder{}}
			packages[e.Package] = p
		}
		p.add(e)
		if e.FailedBuild != "" {
			p.broken = true
			p.write("", text(built, e.FailedBuild).String())
		}
	}
}

func text(of map[string]*strings.Builder, key string) *strings.Builder {
	if of[key] == nil {
		of[key] = &strings.Builder{}
	}
	return of[key]
}

func (p *running) add(e event) {
	switch e.Action {
	case "run":
		p.write(e.Test, "")
	case "output":
		// The detector writes beside the tests, so any of them may seem to have said it.
		p.race = p.race || strings.Contains(e.Output, "WARNING: DATA RACE")
		p.write(e.Test, e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			p.ended, p.seconds = e.Action, e.Elapsed
			return
		}
		if e.Action == "fail" {
			return
		}
		delete(p.open, e.Test)
		if e.Action == "pass" {
			p.passed++
		} else {
			p.skipped = append(p.skipped, e.Test)
		}
	}
}

func (p *running) write(test, output string) {
	if p.open[test] == nil {
		p.order = append(p.order, test)
	}
	text(p.open, test).WriteString(output)
}

func (p *running) result() result {
	r := result{
		Package: p.name, Failed: p.ended != "pass" && p.ended != "skip", Cut: p.ended == "", Seconds: p.seconds,
		Passed: p.passed, LeftOut: p.skipped,
	}
	if whole := p.open[""]; whole != nil {
		for line := range strings.Lines(whole.String()) {
			if what, says := strings.CutPrefix(line, "LEFT OUT"); says {
				r.LeftOut = append(r.LeftOut, strings.Trim(what, ": \n"))
			}
		}
	}
	if !r.Failed {
		return r
	}
	var output strings.Builder
	for _, test := range p.order {
		said := p.open[test]
		if said == nil {
			continue
		}
		output.WriteString(said.String())
		if test != "" && !p.contains(test) {
			r.Fallen = append(r.Fallen, test)
		}
	}
	r.Output = output.String()
	r.Certain = certain(p, r.Output)
	r.Detector = r.Certain == "" && strings.Contains(r.Output, detectorsEnd) && !strings.Contains(r.Output, "--- FAIL")
	return r
}

// contains reports whether a test inside of the named one has not passed either.
func (p *running) contains(test string) bool {
	for other := range p.open {
		if strings.HasPrefix(other, test+"/") {
			return true
		}
	}
	return false
}

// short is a package without the name of the module.
func short(pkg string) string { return strings.TrimPrefix(pkg, module) }

// records returns the records of a directory, the oldest first.
func records(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*.json")) }
