// Package quickstart_test does what the documentation tells a newcomer to do, word for word, with the built binaries: start
// drover dev, paste what it prints, run the quick start, stop it, start it again.
package quickstart_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"drover/test/harness"
)

var binaries struct{ drover, agent, oddd string }

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]*string{
		"./cmd/drover": &binaries.drover, "./cmd/drover-agent": &binaries.agent, "./test/daemons/oddd": &binaries.oddd,
	},
		// nginx that finds itself root gives its workers another account.
		harness.Need{Test: "TestQuickstart/as_it_comes", Accounts: true},
	))
}

// stopTime is how long a stop may take (SIGTERM ends drover within 10 s).
const stopTime = 10 * time.Second

// finished is a program that has run.
type finished struct {
	code        int
	out, errors string
}

// run runs a program to its end.
func run(t *testing.T, env []string, name string, args ...string) finished {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", name, err)
	}
	return finished{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// started is a program that runs.
type started struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   string
	ended chan error
}

// start starts a program whose output goes to a file; it is killed with the test.
func start(t *testing.T, name string, args ...string) *started {
	t.Helper()
	p := &started{t: t, log: filepath.Join(t.TempDir(), "log"), ended: make(chan error, 1)}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(name, args...)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, most of the time
		_ = log.Close()
		if t.Failed() {
			t.Logf("log of %s:\n%s", filepath.Base(name), p.text())
		}
	})
	return p
}

func (p *started) text() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// terminate sends SIGTERM and wants a clean end in time.
func (p *started) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("ended with %v", err)
		}
	case <-time.After(stopTime):
		p.t.Fatalf("did not end within %v", stopTime)
	}
}
