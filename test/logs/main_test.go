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
	}))
}

// place is a drover, and a directory for the processes of the namespace shop.
type place struct {
	t   *testing.T
	s   *harness.Server
	dir string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{t, harness.Start(t, binaries.drover), harness.Workdir(t)}
}

// cli runs a command of drover.
func (p *place) cli(args ...string) harness.Finished {
	p.t.Helper()
	return harness.Finish(p.t, "", harness.Environment(p.dir), binaries.drover, append(args, "--data-dir", p.s.DataDir)...)
}

// logs returns the lines that drover logs prints.
func (p *place) logs(args ...string) []string {
	p.t.Helper()
	a := p.cli(append([]string{"logs"}, args...)...)
	if a.Code != 0 {
		p.t.Fatalf("logs %q: exit code %d: %s", args, a.Code, a.Errors)
	}
	return strings.Split(strings.TrimSuffix(a.Out, "\n"), "\n")
}

// follow runs drover logs -f until the test ends.
func (p *place) follow(args ...string) *harness.Program {
	p.t.Helper()
	return harness.Launch(p.t, &harness.Log{}, harness.Environment(p.dir), binaries.drover,
		append([]string{"logs", "-f", "--data-dir", p.s.DataDir}, args...)...)
}

// program writes a shell script; DIR in it is the directory.
func (p *place) program(name, text string) {
	p.t.Helper()
	text = "#!/bin/sh\n" + strings.ReplaceAll(text, "DIR", p.dir)
	if err := harness.WriteProgram(filepath.Join(p.dir, name), []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// apply applies the processes of a file; DIR in it is the directory.
func (p *place) apply(processes string) {
	p.t.Helper()
	path := filepath.Join(p.dir, "file.yaml")
	text := "namespace: shop\nprocesses:\n" + strings.ReplaceAll(processes, "DIR", p.dir)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if a := p.cli("apply", "-f", path, "--yes"); a.Code != 0 {
		p.t.Fatalf("apply: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
}

// pid is the pid of a process of the namespace.
func (p *place) pid(name string) int {
	p.t.Helper()
	instance, _ := (&harness.Process{Server: p.s, Namespace: "shop", Name: name}).Status()["instance"].(map[string]any)
	pid, _ := instance["pid"].(float64)
	return int(pid)
}

// touch makes a file that a script waits for.
func (p *place) touch(name string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// held is the disk space of the logs in bytes.
func (p *place) held() (bytes int64) {
	p.t.Helper()
	a := harness.Finish(p.t, "", harness.Environment(p.dir), "du", "-s", "--block-size=1",
		filepath.Join(p.s.DataDir, "agent", "log"))
	first, _, _ := strings.Cut(a.Out, "\t")
	bytes, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return bytes
}
