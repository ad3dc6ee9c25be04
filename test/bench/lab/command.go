package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"drover/internal/agent/pidns"
)

// Options say how much is measured.
type Options struct {
	// Many is how many processes are many, Rounds how often what is quick is measured.
	Many, Rounds int
	// Window is how long what is at rest is watched.
	Window time.Duration
}

// Command is a program that measures.
type Command struct {
	// Name is that of the program, File what the name of its file of figures ends with, and Title what stands above
	// them.
	Name, File, Title string
	// Defaults are in force where no flag says otherwise.
	Defaults Options
	// Flags are those that only this program has. They are parsed when Measure is called.
	Flags *flag.FlagSet
	// Light says that nothing is supervised: there is no Worker, and gcc is not needed.
	Light bool
	// Ports says that more connections are made than a machine has ports for: there is a network of its own then, where
	// a program may connect from nearly all of them.
	Ports bool
	// Stages are further ones of this program, as those of Main; they may be nil.
	Stages map[string]func([]string) error
	// Measure adds to the report what it can, also when it fails in the end.
	Measure func(context.Context, *Lab, Options, *Report) error
}

// Chosen reports whether a list of names with commas between them holds one. All are chosen by an empty list.
func Chosen(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// Main is the life of the program, and returns its exit code: in the processes that it starts of itself that of a
// supervisor or a server, else the measuring, in a pid namespace. What is written goes to standard output and, as
// asked, to a file.
func (c Command) Main() int {
	if len(os.Args) > 2 {
		stages := map[string]func([]string) error{FloorStage: Supervise, ServerStage: Serve}
		maps.Copy(stages, c.Stages)
		if stage := stages[os.Args[1]]; stage != nil {
			return c.code(stage(os.Args[2:]))
		}
	}
	return pidns.Run(c)
}

func (c Command) code(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
	return 1
}

// OwnNetwork implements pidns.Networked.
func (c Command) OwnNetwork() bool { return c.Ports }

// Run implements pidns.Main.
func (c Command) Run() int {
	if c.Ports {
		if err := openPorts(); err != nil {
			return c.code(err)
		}
	}
	o := c.Defaults
	flags := c.Flags
	flags.IntVar(&o.Many, "n", o.Many, "how many processes are many")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "rounds of a measurement")
	flags.DurationVar(&o.Window, "idle", o.Window, "how long to watch what is at rest")
	out := flags.String("out", "", "directory of the file of figures; none is written if empty")
	disk := flags.String("disk", "",
		"directory on the disk to measure; the default directory for temporary files if empty")
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case o.Many < leastMany || o.Rounds < 1 || flags.NArg() > 0:
		return c.code(fmt.Errorf("at least %d processes and one round are needed, and no arguments", leastMany))
	}
	return c.code(c.measure(context.Background(), o, *disk, *out))
}

// leastMany is the smallest number of which a fifth and a tenth can be told apart from one.
const leastMany = 20

func (c Command) measure(ctx context.Context, o Options, disk, out string) error {
	machine, began := Machine(ctx), time.Now()
	l, err := New(ctx, disk, !c.Light)
	if err != nil {
		return err
	}
	r := &Report{}
	failed := c.Measure(ctx, l, o, r)
	if failed != nil {
		fmt.Fprintf(os.Stderr, "logs are kept in %s and %s\n", l.Dir, l.Disk)
	} else {
		_ = l.Close() // what is left is below a directory for temporary files
	}
	r.Note("it took %s", time.Since(began).Round(time.Second))
	w := io.Writer(os.Stdout)
	if out != "" {
		f, err := os.Create(filepath.Join(out, began.UTC().Format(time.DateOnly)+"-"+c.File+".md"))
		if err != nil {
			return errors.Join(failed, err)
		}
		defer f.Close()
		w = io.MultiWriter(w, f)
	}
	return errors.Join(failed, r.write(w, c.Title, machine))
}
