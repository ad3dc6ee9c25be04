// Package logs_test holds the black-box tests of logs: what processes write, and what drover shows of it.
package logs_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, agent string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent,
	}, harness.Need{Test: "TestPipes", Accounts: true}))
}

// place is a drover, and a directory for the processes of one namespace.
type place struct{ *harness.Place }

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{harness.NewPlace(t, binaries.drover)}
}

// logs returns the lines that drover logs prints.
func (p *place) logs(args ...string) []string {
	p.T.Helper()
	a := p.CLI(append([]string{"logs"}, args...)...)
	if a.Code != 0 {
		p.T.Fatalf("logs %q: exit code %d: %s", args, a.Code, a.Errors)
	}
	return strings.Split(strings.TrimSuffix(a.Out, "\n"), "\n")
}

// follow runs drover logs -f until the test ends.
func (p *place) follow(args ...string) *harness.Program {
	p.T.Helper()
	return harness.Launch(p.T, &harness.Log{}, harness.Environment(p.Dir), binaries.drover,
		append([]string{"logs", "-f", "--data-dir", p.S.DataDir}, args...)...)
}

// program writes a shell script; DIR in it is the directory.
func (p *place) program(name, text string) {
	p.T.Helper()
	text = "#!/bin/sh\n" + strings.ReplaceAll(text, "DIR", p.Dir)
	if err := harness.WriteProgram(filepath.Join(p.Dir, name), []byte(text)); err != nil {
		p.T.Fatal(err)
	}
}

// apply applies the processes of a file; DIR in it is the directory.
func (p *place) apply(processes string) {
	p.T.Helper()
	p.Apply("namespace: shop\nprocesses:\n" + processes)
}

// held is the disk space of the logs in bytes.
func (p *place) held() (bytes int64) {
	p.T.Helper()
	a := harness.Finish(p.T, "", harness.Environment(p.Dir), "du", "-s", "--block-size=1",
		filepath.Join(p.S.DataDir, "agent", "log"))
	first, _, _ := strings.Cut(a.Out, "\t")
	bytes, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		p.T.Fatal(err)
	}
	return bytes
}

// remove removes a file of the directory, if it is there.
func (p *place) remove(name string) {
	p.T.Helper()
	if err := os.Remove(filepath.Join(p.Dir, name)); err != nil && !os.IsNotExist(err) {
		p.T.Fatal(err)
	}
}

// has reports whether a file of the directory is there.
func (p *place) has(name string) bool {
	_, err := os.Stat(filepath.Join(p.Dir, name))
	return err == nil
}
