// Package importing_test holds the black-box tests of processes that another program started: drover takes them over
// with the same pid, or refuses to start beside them.
package importing_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

var binaries struct{ drover string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{"./cmd/drover": &binaries.drover},
		harness.Need{Test: "TestSupervisord", Program: "/usr/bin/supervisord"},
		harness.Need{Test: "TestNumprocs", Program: "/usr/bin/supervisord"}))
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

// cli runs a command of drover, and fails if its exit code is another one.
func (p *place) cli(code int, args ...string) harness.Finished {
	p.t.Helper()
	f := harness.Finish(p.t, "", harness.Environment(p.dir), binaries.drover, append(args, "--data-dir", p.s.DataDir)...)
	if f.Code != code {
		p.t.Fatalf("%q: exit code %d, want %d\n%s%s", args, f.Code, code, f.Out, f.Errors)
	}
	return f
}

// write writes a file of the directory; DIR in its text is the directory.
func (p *place) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", p.dir)), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// start runs a program as somebody else would. It is reaped when it ends.
func (p *place) start(program string, args ...string) (pid int) {
	p.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if err := <-ended; err == nil {
			p.t.Errorf("%s ended by itself", program)
		}
	})
	return cmd.Process.Pid
}

// pid is that of a process of the namespace shop as drover knows it; 0 if it does not run.
func (p *place) pid(name string) int {
	p.t.Helper()
	process := harness.Process{Server: p.s, Namespace: "shop", Name: name}
	instance, _ := process.Status()["instance"].(map[string]any)
	pid, _ := instance["pid"].(float64)
	return max(int(pid), 0)
}

// relaunches kills a process, and waits until drover has started another one.
func (p *place) relaunches(name string, pid int) {
	p.t.Helper()
	harness.Signal(p.t, pid, syscall.SIGKILL)
	harness.Eventually(p.t, "a relaunch of "+name, func() bool {
		now := p.pid(name)
		return now != 0 && now != pid && harness.Alive(now)
	})
}
