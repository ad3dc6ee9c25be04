package main

import (
	"fmt"
	"io"

	"drover/test/bench/lab"
)

// bench gathers the figures.
type bench struct {
	*lab.Lab
	options
	times lab.Table
	rest  lab.Table
	calls lab.Table
	notes []string
	// arenas counts those that were made.
	arenas int
}

func newBench(l *lab.Lab, o options) *bench {
	return &bench{
		Lab: l, options: o,
		times: lab.Table{Head: []string{"what", "rounds", "floor p50", "p99", "max", "drover p50", "p99", "max", "p50 ratio", "aim", "met"}},
		rest:  lab.Table{Head: []string{"hosted", "PSS MB", "of that, heap", "threads", "CPU % of a core", "system calls/s", "floor: PSS MB", "threads", "CPU %", "met"}},
		calls: lab.Table{Head: []string{"hosted", "system calls of drover-agent at rest, a second"}},
	}
}

// aim is what a row should reach.
type aim struct {
	text string
	met  func(floor, drover lab.Series) bool
}

// within is the aim that the median is at most so many times that of the floor.
func within(factor float64) aim {
	return aim{fmt.Sprintf("≤ %s×", lab.Figure(factor)), func(floor, drover lab.Series) bool {
		return drover.Quantile(0.5) <= factor*floor.Quantile(0.5)
	}}
}

// and adds a condition to an aim.
func (a aim) and(text string, met func(floor, drover lab.Series) bool) aim {
	return aim{a.text + ", " + text, func(floor, drover lab.Series) bool { return a.met(floor, drover) && met(floor, drover) }}
}

// time adds a row of times in milliseconds.
func (b *bench) time(what string, floor, drover lab.Series, a aim) {
	cells := []string{what, fmt.Sprint(len(drover))}
	for _, s := range []lab.Series{floor, drover} {
		for _, q := range []float64{0.5, 0.99, 1} {
			cells = append(cells, lab.Figure(s.Quantile(q)))
		}
	}
	cells = append(cells, lab.Figure(drover.Quantile(0.5)/floor.Quantile(0.5)), a.text, yes(a.met(floor, drover)))
	b.times.Add(cells...)
}

func yes(met bool) string {
	if met {
		return "yes"
	}
	return "**no**"
}

// note adds a line below the tables.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// write writes all that was gathered as Markdown.
func (b *bench) write(w io.Writer, machine string) error {
	if _, err := fmt.Fprintf(w, "# drover and the floor\n\n%s\n", machine); err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		table *lab.Table
	}{
		{"Times, in ms. Floor and drover take turns. Below 100 rounds p99 is the maximum.", &b.times},
		{"`drover-agent` at rest; its server runs beside it and is not counted. Met is about PSS ≤ 30 MB, threads ≤ 12 and CPU ≤ 0.05 % only.", &b.rest},
		{"", &b.calls},
	} {
		if len(part.table.Rows) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\n\n", part.title); err != nil {
			return err
		}
		if err := part.table.Markdown(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	for _, n := range b.notes {
		if _, err := fmt.Fprintf(w, "* %s\n", n); err != nil {
			return err
		}
	}
	return nil
}
