// Command peers measures drover beside other supervisors and the floor: all supervise the same program, in one run and
// in turns. It writes the figures to standard output and to a file below bench/results. It needs root and gcc;
// supervisors that are not installed (tools/bench-deps.sh) are left out, and named.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"drover/test/bench/lab"
)

func main() {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	dir := flags.String("peers", "", "directory of the peers that are no packages, and of what says why one is missing")
	only := flags.String("only", "", "names of supervisors, with commas between them; all if empty")
	os.Exit(lab.Command{
		Name: "peers", File: "peers", Title: "drover, other supervisors and the floor",
		Defaults: lab.Options{Many: 1000, Rounds: 30, Window: 20 * time.Second},
		Flags:    flags,
		Measure: func(ctx context.Context, l *lab.Lab, o lab.Options, r *lab.Report) error {
			f := newField(l, o, r)
			for _, s := range supervisors(*dir) {
				if !lab.Chosen(*only, s.name) {
					continue
				}
				if why := s.missing(*dir); why != "" {
					f.Note("%s is missing: %s", s.name, why)
					continue
				}
				f.list = append(f.list, s)
			}
			return f.measure(ctx)
		},
	}.Main())
}
