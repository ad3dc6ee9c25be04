// Oddd is a daemon for tests that behaves as badly as it is told:
//
//	oddd MODE[,MODE...] -pidfile FILE [flags]
//
// It puts itself in the background (two forks, a session of its own), writes its pid file, returns to its caller and
// waits for signals: SIGTERM, SIGINT and SIGQUIT end it and remove the pid file, SIGHUP appends the line "reloaded" to
// -log. Modes can be combined:
//
//	plain         nothing odd: the pid file is there when the command returns
//	late          the command returns at once, the pid file appears after -delay
//	hold-stdout   keeps the stdout and stderr that it was given and goes on writing -kib to stdout every -every
//	ignore-term   notes SIGTERM, SIGINT and SIGQUIT and goes on
//	rename        changes its name (comm) to -title
//	workers       starts -workers children, each in a session of its own; they end at SIGTERM, or with SIGKILL, not with it
//	exit-now      exits 0 at once and leaves no daemon
//	crash-after   exits with -code after -delay and leaves its pid file
//	crash-at-usr1 exits with -code at SIGUSR1 and leaves its pid file
//	hog-cpu       keeps a fifth of a processor busy from -delay on, for -span
//	hog-mem       holds -mb of memory, likewise
//	grandchild    leaves either to a child of a child, both of which end as workers do
//
// What it did is in append-only files, one line each: in -runlog "start PID NS" for every daemon, worker and exit-now
// that began (NS is Unix time in nanoseconds, workers and children of a hog say "worker"), in -siglog "SIGNAL PID" for
// every signal that the daemon got.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	o, err := parse(os.Args)
	if err == nil {
		err = o.run(os.Getenv(stageVariable))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oddd:", err)
		os.Exit(1)
	}
}

// options are what the command line said.
type options struct {
	modes   []string
	pidfile string
	log     string
	runlog  string
	siglog  string
	title   string
	delay   time.Duration
	every   time.Duration
	workers int
	code    int
	span    time.Duration
	mb      int
	kib     int
}

func parse(args []string) (*options, error) {
	if len(args) < 2 {
		return nil, fmt.Errorf("no mode given: expected one or more of %s", strings.Join(modes(), ", "))
	}
	o := &options{modes: strings.Split(args[1], ",")}
	f := flag.NewFlagSet("oddd", flag.ContinueOnError)
	f.StringVar(&o.pidfile, "pidfile", "", "`file` that holds the pid")
	f.StringVar(&o.log, "log", "", "`file` that gets \"reloaded\" at SIGHUP")
	f.StringVar(&o.runlog, "runlog", "", "`file` that gets a line for each start")
	f.StringVar(&o.siglog, "siglog", "", "`file` that gets a line for each signal")
	f.StringVar(&o.title, "title", "odd", "new `name` with rename")
	f.DurationVar(&o.delay, "delay", 500*time.Millisecond, "`time` to pass with late, crash-after and the hogs")
	f.DurationVar(&o.every, "every", 50*time.Millisecond, "`time` between two lines with hold-stdout")
	f.IntVar(&o.workers, "workers", 2, "`number` of children with workers")
	f.IntVar(&o.code, "code", 3, "exit `code` with crash-after and crash-at-usr1")
	f.IntVar(&o.kib, "kib", 0, "`KiB` of a line with hold-stdout, beside its time")
	f.DurationVar(&o.span, "span", 0, "`time` that a hog lasts; 0 is for ever")
	f.IntVar(&o.mb, "mb", 100, "`MiB` of memory with hog-mem")
	if err := f.Parse(args[2:]); err != nil {
		return nil, err
	}
	for _, m := range o.modes {
		if !slices.Contains(modes(), m) {
			return nil, fmt.Errorf("unknown mode %q: expected one or more of %s", m, strings.Join(modes(), ", "))
		}
	}
	return o, nil
}

// The modes.
const (
	plain      = "plain"
	late       = "late"
	holdStdout = "hold-stdout"
	ignoreTerm = "ignore-term"
	rename     = "rename"
	workers    = "workers"
	exitNow    = "exit-now"
	crashAfter = "crash-after"
	crashAtUSR = "crash-at-usr1"
	hogCPU     = "hog-cpu"
	hogMem     = "hog-mem"
	grandchild = "grandchild"
)

func modes() []string {
	return []string{
		plain, late, holdStdout, ignoreTerm, rename, workers, exitNow, crashAfter, crashAtUSR, hogCPU, hogMem,
		grandchild,
	}
}

func (o *options) is(mode string) bool { return slices.Contains(o.modes, mode) }

// run does the part of the process that this one is.
func (o *options) run(stage string) error {
	switch stage {
	case stageSession:
		return o.startDaemon()
	case stageDaemon:
		return o.daemon()
	case stageWorker:
		return o.worker()
	case stageParent:
		return o.parent()
	case stageHog:
		go o.hog()
		return o.worker()
	}
	if o.is(exitNow) {
		return o.noteStart("start")
	}
	return o.launch()
}
