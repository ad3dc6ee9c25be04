package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// most is how many packages of a run may pass at the second try only.
const most = 3

// errFailed says that the run is over and has failed; why was printed.
var errFailed = errors.New("failed")

// run is one call of the suite.
type run struct {
	out io.Writer
	// root is the directory of the repository; dir keeps the records.
	root, dir string
	// test runs tests, and writes a record of them to a file. It returns an error if they did not all pass.
	test func(ctx context.Context, record string, s stage, packages []string) error
	// skips says that a test that is left out is a failure.
	skips bool
	known known

	passed  int
	fallen  []fall
	leftOut []string
	flaked  []string
}

// fall is a package that has to run again.
type fall struct {
	stage stage
	result
}

// say prints for the person who waits. The records have everything else, so a closed output is not a failure.
func (r *run) say(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format, args...) }

// do runs stages one after another, then once more, alone, each package that fell, and judges.
func (r *run) do(ctx context.Context, stages []stage) error {
	for _, s := range stages {
		begun := time.Now()
		if err := r.first(ctx, s); err != nil {
			return err
		}
		r.say("%s: %d s\n", s.Name, int(time.Since(begun).Seconds()))
	}
	if len(r.fallen) > 0 {
		if err := r.again(ctx); err != nil {
			return err
		}
	}
	return r.judge()
}

// possible returns the stages that can run here, and notes the others as left out.
func (r *run) possible(stages []stage) []stage {
	return slices.DeleteFunc(stages, func(s stage) bool {
		if s.Needs != "" {
			r.leftOut = append(r.leftOut, s.Name+", which needs "+s.Needs)
		}
		return s.Needs != ""
	})
}

// fuzz runs every fuzz target with a few inputs. A crasher is never luck.
func (r *run) fuzz(ctx context.Context) error {
	begun := time.Now()
	r.say("\n== fuzzing ==\n")
	cmd := exec.CommandContext(ctx, filepath.Join(r.root, "tools", "fuzz.sh"), "1000")
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, r.out, r.out
	if err := cmd.Run(); err != nil {
		r.say("FAILED fuzzing: %v\n", err)
		return errFailed
	}
	r.say("fuzzing: %d s\n", int(time.Since(begun).Seconds()))
	return nil
}

// first runs a stage. A fall that cannot be luck ends the run.
func (r *run) first(ctx context.Context, s stage) error {
	r.say("\n== %s: %d packages ==\n", s.Name, len(s.Packages))
	results, err := r.results(ctx, s, s.Packages)
	if err != nil {
		return err
	}
	sure := false
	for _, p := range results {
		r.passed += p.Passed
		for _, test := range p.LeftOut {
			r.leftOut = append(r.leftOut, short(p.Package)+" "+test)
		}
		switch {
		case !p.Failed:
		case p.Certain != "":
			sure = true
			r.say("FAILED %s %s: %s\n%s", short(p.Package), strings.Join(p.names(), ", "), p.Certain, said(p.Output))
		default:
			r.say("FELL %s %s: runs once more, alone, at the end\n", short(p.Package),
				strings.Join(p.names(), ", "))
			r.fallen = append(r.fallen, fall{s, p})
		}
	}
	if sure {
		return errFailed
	}
	return nil
}

// results runs packages of a stage, and returns how each has ended.
func (r *run) results(ctx context.Context, s stage, packages []string) ([]result, error) {
	have, err := records(r.dir)
	if err != nil {
		return nil, err
	}
	record := filepath.Join(r.dir, fmt.Sprintf("%03d.json", len(have)+1))
	tests := r.test(ctx, record, s, packages)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	results, err := read(record)
	if err != nil {
		return nil, errors.Join(tests, err)
	}
	// A package without a result has not been tested: go test did not get as far.
	for _, pkg := range packages {
		if !slices.ContainsFunc(results, func(p result) bool { return p.Package == pkg }) {
			return nil, fmt.Errorf("%s has no result: %w", pkg, errors.Join(tests, errFailed))
		}
	}
	if tests != nil && !slices.ContainsFunc(results, func(p result) bool { return p.Failed }) {
		return nil, fmt.Errorf("no package fell, but the tests ended with: %w", tests)
	}
	return results, nil
}

// names are the tests that fell, or a word for the package if it fell by itself.
func (p result) names() []string {
	if len(p.Fallen) == 0 {
		return []string{"(outside of its tests)"}
	}
	return p.Fallen
}

// again is the second try.
func (r *run) again(ctx context.Context) error {
	r.say("\n== second try: %d packages, each alone ==\n", len(r.fallen))
	for _, f := range r.fallen {
		s := f.stage
		s.Name = "second try of " + short(f.Package)
		results, err := r.results(ctx, s, []string{f.Package})
		if err != nil {
			return err
		}
		for _, p := range results {
			r.passed += p.Passed
			if p.Failed && p.Package == f.Package {
				r.say("FAILED %s %s, after %s\n%s%s", short(p.Package), strings.Join(p.names(), ", "),
					strings.Join(f.names(), ", "), said(p.Output), said(f.Output))
				return errFailed
			}
		}
		if f.Detector {
			r.say("The race detector ended itself in %s (golang.org/issue/78156), and passes now.\n",
				short(f.Package))
			continue
		}
		if err := r.keep(f); err != nil {
			return err
		}
	}
	return nil
}

// logsOf returns the files that keep what a package wrote when it fell, one for each fall.
func (r *run) logsOf(pkg string) []string {
	logs, _ := filepath.Glob(filepath.Join(r.dir, "flaked-"+url.PathEscape(pkg)+"@*.log")) // the pattern is right
	return logs
}

// keep keeps what a package wrote when it fell, and adds it to those of this run and of the one before that uses the
// same records.
func (r *run) keep(f fall) error {
	pkg := short(f.Package)
	path := filepath.Join(r.dir, fmt.Sprintf("flaked-%s@%d.log", url.PathEscape(pkg), len(r.logsOf(pkg))))
	if err := os.WriteFile(path, []byte(f.Output), 0o644); err != nil {
		return err
	}
	r.say("\nWhat %s wrote when it fell (%s):\n%s\n", short(f.Package), path, end(f.Output, 128<<10))
	list, err := os.OpenFile(filepath.Join(r.dir, "flaked"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer list.Close()
	for _, test := range f.names() {
		if _, err := fmt.Fprintln(list, short(f.Package), test); err != nil {
			return err
		}
	}
	return nil
}

// end is the last part of a text.
func end(text string, bytes int) string { return text[max(0, len(text)-bytes):] }

// judge prints the last lines.
func (r *run) judge() error {
	list, err := os.ReadFile(filepath.Join(r.dir, "flaked"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var why []string
	packages := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		line = strings.TrimSpace(line)
		pkg, test, _ := strings.Cut(line, " ")
		packages[pkg] = true
		r.flaked = append(r.flaked, line)
		if r.known.unmended(module+pkg, test) {
			why = append(why, line+" flaked before, and test/flaked.md names no mend")
		}
	}
	if len(packages) > most {
		why = append(why, fmt.Sprintf("%d packages flaked, and at most %d may", len(packages), most))
	}
	slices.Sort(r.leftOut)
	for _, test := range slices.Compact(r.leftOut) {
		r.say("LEFT OUT %s\n", test)
	}
	if r.skips && len(r.leftOut) > 0 {
		why = append(why, "a test was left out, and CI=true allows none")
	}
	for i, line := range r.flaked {
		r.say("FLAKED %s\n", line)
		pkg, _, _ := strings.Cut(line, " ")
		if i+1 < len(r.flaked) && strings.HasPrefix(r.flaked[i+1], pkg+" ") {
			continue // the lines come after its last test
		}
		for _, log := range r.logsOf(pkg) {
			if output, err := os.ReadFile(log); err == nil {
				r.say("%s", said(string(output)))
			}
		}
	}
	if len(r.flaked) > 0 {
		r.say("Each line FLAKED needs a row in test/flaked.md: when, cause and mend.\n")
	}
	for _, reason := range why {
		r.say("FAILED: %s\n", reason)
	}
	if why != nil {
		return errFailed
	}
	r.say("%d passed, 0 failed\n", r.passed)
	return nil
}

// gotestsum returns a function that runs tests as gotestsum does: a line a package, and at the end what the failed
// tests wrote.
func gotestsum(root string, out io.Writer) (func(context.Context, string, stage, []string) error, error) {
	find := exec.Command("go", "tool", "-n", "-modfile="+filepath.Join(root, "tools", "go.mod"), "gotestsum")
	find.Dir, find.Env, find.Stderr = root, append(os.Environ(), "GOWORK=off"), os.Stderr
	path, err := find.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot build gotestsum: %w", err)
	}
	program := strings.TrimSpace(string(path))
	return func(ctx context.Context, record string, s stage, packages []string) error {
		args := slices.Concat([]string{
			"--format", "pkgname", "--format-icons", "text", "--hide-summary", "skipped",
			"--jsonfile", record, "--", "-count", "1", "-vet=off", "-p", strconv.Itoa(s.Beside),
		}, s.Flags, packages)
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, out
		cmd.Env = append(os.Environ(), s.Env...)
		// A stop ends go test and its tests as well, and at once: none of them may look as if it fell.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		return cmd.Run()
	}, nil
}
