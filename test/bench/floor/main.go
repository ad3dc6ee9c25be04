// Command floor measures drover against the least that any program could do for the same job, both in one run and in turns, and
// writes the figures to standard output and to a file below bench/results. It needs root, gcc and, for the count of system calls,
// strace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"drover/test/bench/lab"
)

func main() {
	flags := flag.NewFlagSet("floor", flag.ContinueOnError)
	chosen := flags.String("rows", "", "rows to measure, all if empty: "+strings.Join(names(), ", "))
	os.Exit(lab.Command{
		Name: "floor", File: "bench", Title: "drover and the floor",
		Defaults: lab.Options{Many: 1000, Rounds: 60, Window: 60 * time.Second},
		Flags:    flags,
		Measure: func(ctx context.Context, l *lab.Lab, o lab.Options, r *lab.Report) error {
			return measure(ctx, newBench(l, o, r), *chosen)
		},
	}.Main())
}

// row measures one thing.
type row struct {
	name    string
	measure func(context.Context, *bench) error
}

// rows are all there are, in the order of the table.
func rows() []row {
	return []row{
		{"crash", crashes},
		{"query", query},
		{"sample", sampling},
		{"rest", rest},
		{"accept", accept},
		{"poll", poll},
		{"status", status},
	}
}

func names() []string {
	var list []string
	for _, r := range rows() {
		list = append(list, r.name)
	}
	return list
}

// measure measures the rows that were chosen; one that fails does not keep the others from it.
func measure(ctx context.Context, b *bench, chosen string) error {
	var failed error
	for _, r := range rows() {
		if !lab.Chosen(chosen, r.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s measuring %s\n", time.Now().Format(time.TimeOnly), r.name)
		if err := r.measure(ctx, b); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	return failed
}
