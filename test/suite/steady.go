package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// busyLoops is how many loops take the processors while tests run in steady.
const busyLoops = 2

// steadyHead begins the file of the rounds.
const steadyHead = `# Rounds of make steady

Each round runs once all packages that have processes, servers or real time, beside two busy loops on two processors.
"fell" names what fell at its first try. The newest round is the last.

| commit | begun | minutes | packages | fell |
|---|---|---|---|---|
`

// rounds are what make steady does. What is done is in a directory, so that rounds go on where they were stopped.
type rounds struct {
	*run
	stages []stage
	commit string
	// table is the file that takes a row of each round.
	table string
	now   func() time.Time
}

// steady runs tests again and again beside busy loops.
func steady(ctx context.Context, root string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("steady", flag.ContinueOnError)
	n := flags.Int("n", 20, "how many `rounds` to run, with those of before a stop")
	table := flags.String("out", filepath.Join(root, "bench", "results", "steady.md"), "the `file` that takes a row a round")
	dir := flags.String("dir", filepath.Join(root, "test", "records", "steady"), "the `directory` of the rounds")
	only := flags.String("only", "", "a `part` of the path of each package to test; all packages if empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := newPlan(ctx, root)
	if err != nil {
		return err
	}
	stages, err := p.steady(ctx, root, *only)
	if err != nil {
		return err
	}
	commit := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*")
	commit.Dir = root
	name, err := commit.Output()
	if err != nil {
		return fmt.Errorf("git describe: %w", err)
	}
	tests, err := gotestsum(root, out)
	if err != nil {
		return err
	}
	for range busyLoops {
		go func() {
			for ctx.Err() == nil { //nolint:revive // it is there to take a processor
			}
		}()
	}
	r := &rounds{
		run: &run{out: out, root: root, dir: *dir, test: tests}, stages: stages,
		commit: strings.TrimSpace(string(name)), table: *table, now: time.Now,
	}
	return r.all(ctx, *n)
}

// all runs rounds until n are done, and then forgets them: the next call begins anew.
func (r *rounds) all(ctx context.Context, n int) error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	state := filepath.Join(r.dir, "done")
	text, err := os.ReadFile(state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	done, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0 before the first round is over
	for ; done < n; done++ {
		r.say("\n=== round %d of %d ===\n", done+1, n)
		if err := r.round(ctx); err != nil {
			return err
		}
		if err := os.WriteFile(state, []byte(strconv.Itoa(done+1)), 0o644); err != nil {
			return err
		}
	}
	if err := os.Remove(state); err != nil {
		return err
	}
	r.say("%d rounds are done: %s has a row of each, and %s what fell tests wrote\n", n, r.table, r.dir)
	return nil
}

// round runs what its records lack, and then replaces the records by a row of the table.
func (r *rounds) round(ctx context.Context) error {
	begun := r.now()
	for _, s := range r.stages {
		have, err := r.finished()
		if err != nil {
			return err
		}
		var left []string
		for _, pkg := range s.Packages {
			if !slices.ContainsFunc(have, func(p result) bool { return p.Package == pkg }) {
				left = append(left, pkg)
			}
		}
		if len(left) == 0 {
			continue
		}
		r.say("\n== %s: %d packages ==\n", s.Name, len(left))
		if _, err := r.results(ctx, s, left); err != nil {
			return err
		}
	}
	results, err := r.finished()
	if err != nil {
		return err
	}
	if err := r.row(begun, results); err != nil {
		return err
	}
	list, err := records(r.dir)
	for _, record := range list {
		err = errors.Join(err, os.Remove(record))
	}
	return err
}

// finished returns the packages that have ended by themselves in this round.
func (r *rounds) finished() ([]result, error) {
	list, err := records(r.dir)
	if err != nil {
		return nil, err
	}
	var all []result
	for _, record := range list {
		results, err := read(record)
		if err != nil {
			return nil, err
		}
		for _, p := range results {
			if !p.Cut {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// row adds a round to the table, and keeps what fell tests wrote.
func (r *rounds) row(begun time.Time, results []result) error {
	var fell []string
	for _, p := range results {
		if !p.Failed {
			continue
		}
		for _, test := range p.names() {
			fell = append(fell, fmt.Sprintf("`%s %s`", short(p.Package), test))
		}
		log := fmt.Sprintf("fell-%s-%s.log", begun.UTC().Format("20060102T150405"), strings.ReplaceAll(short(p.Package), "/", "-"))
		if err := os.WriteFile(filepath.Join(r.dir, log), []byte(p.Output), 0o644); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(r.table)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(steadyHead), nil
	}
	if err != nil {
		return err
	}
	row := fmt.Sprintf("| %s | %s | %.0f | %d | %s |\n", r.commit, begun.UTC().Format("2006-01-02 15:04"),
		r.now().Sub(begun).Minutes(), len(results), strings.Join(fell, ", "))
	r.say("%s", row)
	return os.WriteFile(r.table, append(text, row...), 0o644)
}
