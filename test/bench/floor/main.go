// Command floor measures drover against the least that any program could do for the same job, both in one run and in
// turns, and writes the figures to standard output and to a file below bench/results. It needs root, gcc and, for the
// count of system calls, strace. To try single rows: -rows crash,logs -rounds 5 -n 20 -idle 5s.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"time"

	"drover/test/bench/lab"
)

func main() {
	flags := flag.NewFlagSet("floor", flag.ContinueOnError)
	chosen := flags.String("rows", "", "rows to measure, all if empty: "+rows().String())
	os.Exit(lab.Command{
		Name: "floor", File: "bench", Title: "drover and the floor",
		Defaults: lab.Options{Many: 1000, Rounds: 60, Window: 60 * time.Second},
		Flags:    flags,
		Measure: func(ctx context.Context, l *lab.Lab, o lab.Options, r *lab.Report) error {
			return newBench(l, o, r).measure(ctx, *chosen)
		},
	}.Main())
}

// rows are all there are, in the order of the table.
func rows() lab.Rows[*bench] {
	return lab.Rows[*bench]{
		{Name: "crash", Measure: (*bench).crashes},
		{Name: "bulk", Measure: (*bench).bulk},
		{Name: "query", Measure: (*bench).query},
		{Name: "sample", Measure: (*bench).sampling},
		{Name: "rest", Measure: (*bench).resting},
		{Name: "logs", Measure: (*bench).writing},
		{Name: "accept", Measure: (*bench).accept},
		{Name: "poll", Measure: (*bench).poll},
		{Name: "status", Measure: (*bench).status},
	}
}

// measure measures the rows that were chosen; one that fails does not keep the others from it.
func (b *bench) measure(ctx context.Context, chosen string) error {
	var failed error
	for _, r := range rows().Chosen(chosen) {
		failed = errors.Join(failed, r.Run(ctx, b))
	}
	return failed
}
