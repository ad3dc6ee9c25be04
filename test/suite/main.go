// Command suite runs the tests of the repository in the order and in the parts that make test and make test-rest need,
// on gotestsum.
//
// A package whose tests fell runs once more, alone, after all others. If it falls again, the run fails. If it passes, the
// run passes, and its last lines name each test that fell as FLAKED. Some falls cannot be luck (verdict.go): they fail the
// run at once. So do more than three flaked packages, and a test that test/flaked.md names without a mend.
//
// The records of a run are in test/records/last, or in the directory that DROVER_TEST_RECORDS names: there the next run goes
// on counting. Records are what `go test -json` writes, and gotestsum tool slowest reads them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"drover/internal/test/repo"
)

// recordsVariable names a directory in which several runs keep their records.
const recordsVariable = "DROVER_TEST_RECORDS"

// programsVariable names a directory in which the tests of several packages share the programs that they run
// (internal/test/harness).
const programsVariable = "DROVER_TEST_PROGRAMS"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err == nil {
		return
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errFailed):
		fmt.Fprintln(os.Stderr, "The run has failed: the lines FAILED above say in what.")
	default:
		fmt.Fprintln(os.Stderr, "suite:", err)
	}
	os.Exit(1)
}

func command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("expected a command: test, rest, race or steady")
	}
	root := repo.Root()
	switch {
	case args[0] == "steady":
		return steady(ctx, root, args[1:], out)
	case len(args) > 1:
		return fmt.Errorf("%s takes no arguments: %q", args[0], args[1:])
	}
	return once(ctx, root, args[0], out)
}

func once(ctx context.Context, root, name string, out io.Writer) error {
	p, err := newPlan(ctx, root)
	if err != nil {
		return err
	}
	plans, known := map[string]func() ([]stage, error){"test": p.test, "rest": p.rest, "race": p.raced}[name]
	if !known {
		return fmt.Errorf("%q is not a command; expected test, rest, race or steady", name)
	}
	stages, err := plans()
	if err != nil {
		return err
	}
	dir, done, err := rooms(filepath.Join(root, "test", "records", "last"))
	if err != nil {
		return err
	}
	defer done()
	tests, err := gotestsum(root, out)
	if err != nil {
		return err
	}
	k, err := readKnown(filepath.Join(root, "test", "flaked.md"))
	if err != nil {
		return err
	}
	r := &run{out: out, root: root, dir: dir, test: tests, skips: os.Getenv("CI") == "true", known: k}
	r.say("%s", takes[name])
	if name == "rest" {
		if err := r.fuzz(ctx); err != nil {
			return err
		}
	}
	if err := r.do(ctx, r.possible(stages)); err != nil {
		return err
	}
	r.say("%s", later[name])
	return nil
}

// rooms returns the directory of the records, and a function that removes what is no longer needed after the tests.
func rooms(usual string) (dir string, done func(), err error) {
	done = func() {}
	if dir = os.Getenv(recordsVariable); dir == "" {
		dir = usual
		if err := os.RemoveAll(dir); err != nil {
			return "", nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	if os.Getenv(programsVariable) == "" {
		programs, err := os.MkdirTemp("", "drover-programs-")
		if err != nil {
			return "", nil, err
		}
		done = func() { _ = os.RemoveAll(programs) }
		return dir, done, os.Setenv(programsVariable, programs)
	}
	return dir, done, nil
}
