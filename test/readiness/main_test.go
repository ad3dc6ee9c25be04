// Package readiness_test holds the black-box tests of readiness: what a process says of itself is what the built binary
// shows and does.
package readiness_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover, herald string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./test/readiness/herald": &binaries.herald,
	}, harness.Need{Test: "TestForeigner", Accounts: true}))
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
	return harness.Finish(p.t, "", harness.Environment(p.dir), binaries.drover, append(args, "--data-dir", p.s.DataDir)...)
}

// apply applies processes of a namespace; HERALD in them is the program, DIR the directory. It returns the exit code.
func (p *place) apply(processes string) harness.Finished {
	p.t.Helper()
	path := filepath.Join(p.dir, "file.yaml")
	text := "namespace: shop\ndefaults: {hosts: [\"0:127.0.0.1\"], user: root, directory: DIR}\nprocesses:\n" + processes
	text = strings.NewReplacer("DIR", p.dir, "HERALD", binaries.herald, "OTHER", strconv.Itoa(p.s.PID())).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return p.cli("apply", "-f", path, "--yes")
}

// begin applies processes whose start must succeed.
func (p *place) begin(processes string) {
	p.t.Helper()
	if a := p.apply(processes); a.Code != 0 {
		p.t.Fatalf("apply: exit code %d\n%s%s", a.Code, a.Out, a.Errors)
	}
}

// touch makes a file of the directory, which a herald awaits.
func (p *place) touch(name string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) process(name string) *harness.Process {
	return &harness.Process{Server: p.s, Namespace: "shop", Name: name}
}

func (p *place) state(name string) string {
	state, _ := p.process(name).Status()["state"].(string)
	return state
}

// becomes waits until a process is in a state.
func (p *place) becomes(name, state string) {
	p.t.Helper()
	harness.Eventually(p.t, name+" to be "+state, func() bool { return p.state(name) == state })
}

// told is all that the status says, as text.
func (p *place) told(name string) string {
	p.t.Helper()
	text, err := json.Marshal(p.process(name).Status())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func (p *place) pid(name string) int {
	p.t.Helper()
	instance, _ := p.process(name).Status()["instance"].(map[string]any)
	pid, _ := instance["pid"].(float64)
	return int(pid)
}
