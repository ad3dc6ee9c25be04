package main

import (
	"fmt"

	"drover/test/bench/lab"
)

// bench gathers the figures.
type bench struct {
	*lab.Lab
	lab.Options
	*lab.Report
	times, rest, calls, logs *lab.Table
	// arenas counts those that were made.
	arenas int
}

func newBench(l *lab.Lab, o lab.Options, r *lab.Report) *bench {
	return &bench{
		Lab: l, Options: o, Report: r,
		times: r.Table("Times, in ms. Floor and drover take turns. Below 100 rounds p99 is the maximum.",
			"what", "rounds", "floor p50", "p99", "max", "drover p50", "p99", "max", "p50 ratio", "aim", "met"),
		rest: r.Table(
			"`drover-agent` at rest; its server runs beside it and is not counted. Met is about PSS ≤ 30 MB (12 MB with up to 10), threads ≤ 12 and CPU ≤ 0.05 % only.",
			"hosted", "PSS MB", "of that, heap", "threads", "CPU % of a core", "wake-ups/s", "system calls/s",
			"floor: PSS MB", "threads", "CPU %", "wake-ups/s", "met"),
		calls: r.Table("", "hosted", "system calls of drover-agent at rest, a second"),
		logs: r.Table(
			"`drover-agent` while children write 10 kB/s each: 10 lines of 100 bytes, 10 times a second. It compresses on a thread of low priority.",
			"writers", "their logs", "CPU % of a core", "wake-ups/s", "PSS MB", "aim", "met"),
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

// atMost is the aim that the median is at most so many milliseconds.
func atMost(ms float64) aim {
	return aim{fmt.Sprintf("≤ %s ms", lab.Figure(ms)), func(_, drover lab.Series) bool {
		return drover.Quantile(0.5) <= ms
	}}
}

// and adds a condition to an aim.
func (a aim) and(text string, met func(floor, drover lab.Series) bool) aim {
	return aim{a.text + ", " + text, func(floor, drover lab.Series) bool {
		return a.met(floor, drover) &&
			met(floor, drover)
	}}
}

// time adds a row of times in milliseconds.
func (b *bench) time(what string, floor, drover lab.Series, a aim) {
	cells := []string{what, fmt.Sprint(len(drover))}
	for _, s := range []lab.Series{floor, drover} {
		for _, q := range []float64{0.5, 0.99, 1} {
			cells = append(cells, lab.Figure(s.Quantile(q)))
		}
	}
	cells = append(cells, lab.Figure(drover.Quantile(0.5)/floor.Quantile(0.5)), a.text, lab.YesNo(a.met(floor, drover)))
	b.times.Add(cells...)
}
