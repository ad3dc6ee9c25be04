// Command floor measures drover against the least that any program could do for the same job, both in one run and in turns, and
// writes the figures to standard output and to a file below bench/results. It needs root, gcc and, for the count of system calls,
// strace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drover/internal/agent/pidns"
	"drover/test/bench/lab"
)

func main() {
	if len(os.Args) > 2 {
		stages := map[string]func([]string) error{lab.FloorStage: lab.Supervise, lab.ServerStage: lab.Serve}
		if stage := stages[os.Args[1]]; stage != nil {
			if err := stage(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(pidns.Run(program{}))
}

// program is what runs in the pid namespace.
type program struct{}

// Run implements pidns.Main.
func (program) Run() int {
	o := options{}
	rows := flag.String("rows", "", "rows to measure, all if empty: "+strings.Join(names(), ", "))
	flag.IntVar(&o.many, "n", 1000, "how many processes are many")
	flag.IntVar(&o.rounds, "rounds", 60, "rounds of a measurement")
	flag.DurationVar(&o.window, "idle", 60*time.Second, "how long to watch what is at rest")
	out := flag.String("out", "", "directory of the file of figures; none is written if empty")
	disk := flag.String("disk", "", "directory on the disk to measure; the default directory for temporary files if empty")
	flag.Parse()
	if err := run(context.Background(), o, *rows, *disk, *out); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		return 1
	}
	return 0
}

// options say how much is measured.
type options struct {
	many, rounds int
	window       time.Duration
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

func run(ctx context.Context, o options, chosen, disk, out string) error {
	machine := lab.Machine(ctx)
	l, err := lab.New(ctx, disk)
	if err != nil {
		return err
	}
	b := newBench(l, o)
	var failed error
	defer func() {
		if failed != nil {
			fmt.Fprintf(os.Stderr, "logs are kept in %s and %s\n", l.Dir, l.Disk)
			return
		}
		_ = l.Close() // what is left is below a directory for temporary files
	}()
	for _, r := range rows() {
		if chosen != "" && !strings.Contains(","+chosen+",", ","+r.name+",") {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s measuring %s\n", time.Now().Format(time.TimeOnly), r.name)
		if err := r.measure(ctx, b); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	writers := []io.Writer{os.Stdout}
	if out != "" {
		name := filepath.Join(out, time.Now().UTC().Format("2006-01-02")+"-bench.md")
		f, err := os.Create(name)
		if err != nil {
			return errors.Join(failed, err)
		}
		defer f.Close()
		writers = append(writers, f)
	}
	return errors.Join(failed, b.write(io.MultiWriter(writers...), machine))
}
