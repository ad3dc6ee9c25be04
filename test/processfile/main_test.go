// Package processfile_test holds the black-box tests of process files: what a file says is what the built binary does.
package processfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &binaries.drover},
		harness.Need{Test: "TestExecution", Accounts: true}, harness.Need{Test: "TestClasses", Accounts: true}))
}

// place is a drover, and a directory for the processes of one namespace.
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
	env := harness.Environment(p.dir)
	return harness.Finish(p.t, "", env, binaries.drover, append(args, "--data-dir", p.s.DataDir)...)
}

// file writes a process file; DIR in it is the directory, and BASE the name of the directory.
func (p *place) file(text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, "file.yaml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer("DIR", p.dir, "BASE", filepath.Base(p.dir)).Replace(text)), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// apply applies a process file and fails if not all of it succeeds.
func (p *place) apply(text string) string {
	p.t.Helper()
	a := p.cli("apply", "-f", p.file(text), "--yes")
	if a.Code != 0 {
		p.t.Fatalf("apply: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
	return a.Out
}

// process is one of the namespace.
func (p *place) process(name string) *harness.Process {
	return &harness.Process{Server: p.s, Namespace: "shop", Name: name}
}

// state is its state, pid the pid of its main process.
func (p *place) state(name string) string {
	state, _ := p.process(name).Status()["state"].(string)
	return state
}

func (p *place) pid(name string) int {
	p.t.Helper()
	instance, _ := p.process(name).Status()["instance"].(map[string]any)
	pid, _ := instance["pid"].(float64)
	return int(pid)
}

// read returns a file of the directory once it has a line; all spaces at its ends are cut.
func (p *place) read(name string) string {
	p.t.Helper()
	var text []byte
	harness.Eventually(p.t, "a line in "+name, func() bool {
		text, _ = os.ReadFile(filepath.Join(p.dir, name))
		return strings.HasSuffix(string(text), "\n")
	})
	return strings.TrimSpace(string(text))
}

// count is the number of lines of a file of the directory.
func (p *place) count(name string) int {
	text, _ := os.ReadFile(filepath.Join(p.dir, name))
	return strings.Count(string(text), "\n")
}

// alive reports whether the process with the pid in a file lives.
func (p *place) alive(file string) bool {
	pid, err := strconv.Atoi(p.read(file))
	if err != nil {
		p.t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// await waits until a file of the directory has a line.
func (p *place) await(name, line string) {
	p.t.Helper()
	harness.Eventually(p.t, line+" in "+name, func() bool {
		text, _ := os.ReadFile(filepath.Join(p.dir, name))
		return slices.Contains(strings.Split(string(text), "\n"), line)
	})
}
