// Command peers measures drover beside other supervisors and the floor: all supervise the same program, in one run and in turns. It
// writes the figures to standard output and to a file below bench/results. It needs root and gcc; supervisors that are not
// installed (tools/bench-deps.sh) are left out, and named.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// options say how much is measured.
type options struct {
	many, rounds int
	window       time.Duration
	dir          string
}

// Run implements pidns.Main.
func (program) Run() int {
	o := options{}
	flag.IntVar(&o.many, "n", 1000, "how many processes are many")
	flag.IntVar(&o.rounds, "rounds", 30, "rounds of crashes")
	flag.DurationVar(&o.window, "idle", 20*time.Second, "how long to watch what is at rest")
	flag.StringVar(&o.dir, "peers", "", "directory of the peers that are no packages")
	only := flag.String("only", "", "names of supervisors; all if empty")
	out := flag.String("out", "", "directory of the file of figures; none is written if empty")
	flag.Parse()
	if err := run(context.Background(), o, *only, *out); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, o options, only, out string) error {
	machine := lab.Machine(ctx)
	l, err := lab.New(ctx, "")
	if err != nil {
		return err
	}
	f := &field{Lab: l, options: o}
	for _, s := range supervisors(o.dir) {
		if only != "" && !slices.Contains(strings.Split(only, ","), s.name) {
			continue
		}
		if s.missing() {
			f.note("%s: not installed here", s.name)
			continue
		}
		f.list = append(f.list, s)
	}
	began := time.Now()
	err = f.measure(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "logs are kept in %s and %s\n", l.Dir, l.Disk)
	} else {
		_ = l.Close() // what is left is below a directory for temporary files
	}
	f.note("it took %s", time.Since(began).Round(time.Second))
	writers := []io.Writer{os.Stdout}
	if out != "" {
		file, createErr := os.Create(filepath.Join(out, time.Now().UTC().Format("2006-01-02")+"-peers.md"))
		if createErr != nil {
			return errors.Join(err, createErr)
		}
		defer file.Close()
		writers = append(writers, file)
	}
	return errors.Join(err, f.write(io.MultiWriter(writers...), machine))
}
