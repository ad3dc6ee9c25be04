// Package harness runs the real drover binary for black-box tests and speaks to it as its callers do. It is for tests
// only, and for packages whose TestMain runs them in a pid namespace of their own (pidns).
package harness

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/test/openapi"
	"drover/internal/test/repo"
)

// The machines that run the tests are shared and slow.
const (
	// Patience is how long a state or an answer may take to come before a test fails. The longest wait was 37 s on a
	// quiet machine; a machine that works for others, too, took three times as long.
	Patience = 3 * time.Minute
	// CommandPatience is how long a whole command, call or operation may take, with all that it waits for itself.
	CommandPatience = 5 * time.Minute
)

// Credentials of the app that the tests are.
const (
	AppCode   = "tests"
	AppSecret = "tests-secret-0123456789"
)

// Agent is what the local agent is called.
const Agent = "0:127.0.0.1"

// programsVariable names a directory in which the tests of several packages share their programs. Each program is built
// once there, so the source must not change meanwhile.
const programsVariable = "DROVER_TEST_PROGRAMS"

// Build builds a package of the module into dir and returns the path of the binary. It is for TestMain. The binary may
// have other names, which other tests use at the same time: a test must not write to it.
func Build(dir, pkg string) (string, error) {
	binary := filepath.Join(dir, filepath.Base(pkg))
	shared := os.Getenv(programsVariable)
	if shared == "" {
		return binary, build(pkg, binary)
	}
	kept, err := buildOnce(shared, pkg)
	if err != nil {
		return "", err
	}
	return binary, os.Link(kept, binary)
}

// buildOnce returns the path of a program in a shared directory. It waits while another process builds there.
func buildOnce(dir, pkg string) (string, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", os.NewSyscallError("flock", err)
	}
	kept := filepath.Join(dir, url.PathEscape(pkg))
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	unfinished := kept + ".new"
	if err := build(pkg, unfinished); err != nil {
		return "", err
	}
	return kept, os.Rename(unfinished, kept)
}

func build(pkg, binary string) error {
	// The form of a release, whose packages the go command then compiles once for all.
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, pkg)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Root is the directory of the repository.
func Root() string { return repo.Root() }

// Server is a running drover dev.
type Server struct {
	*Program
	DataDir string
	URL     string

	binary string
	log    *Log
	env    []string
	flags  []string
}

// Start runs drover dev on a new data directory, with the tests' app as its first, and waits until it takes calls. It
// is ended with the test; what it started then ends with the pid namespace.
func Start(t testing.TB, binary string, flags ...string) *Server {
	t.Helper()
	return StartIn(t, binary, FirstApp(), flags...)
}

// StartIn is Start with an environment of PATH, HOME and the given variables only.
func StartIn(t testing.TB, binary string, env []string, flags ...string) *Server {
	t.Helper()
	//nolint:usetesting // what a daemon still writes there must not fail the test
	dir, err := os.MkdirTemp("", "drover-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{
		Program: &Program{t: t}, DataDir: filepath.Join(dir, "data"), binary: binary, log: &Log{},
		env: Environment(dir, env...), flags: flags,
	}
	s.log.ShowIfFailed(t, "drover")
	s.Run()
	return s
}

// Run starts the server again after Kill or Terminate, with these flags besides its own, and waits until it takes
// calls.
func (s *Server) Run(flags ...string) {
	s.t.Helper()
	if s.URL == "" {
		s.URL = "http://" + FreeAddress(s.t)
	}
	args := []string{
		"dev", "--data-dir", s.DataDir, "--http", strings.TrimPrefix(s.URL, "http://"), "--log-level", "info",
	}
	s.Program = Launch(s.t, s.log, s.env, s.binary, slices.Concat(args, s.flags, flags)...)
	s.URL = s.Program.URL()
}

// Output is what the server has written to its standard output since Run.
func (s *Server) Output() string { return s.Out.String() }

// Log returns what it has written to its standard error, in all its lives.
func (s *Server) Log() string { return s.log.String() }

// caller checks each exchange against the document of the API.
func (s *Server) caller() Caller {
	return Caller{s.URL, openapi.NewClient(s.t, http.DefaultClient)}
}

// Do calls a path with the tests' credentials in the header and returns status and decoded body.
func (s *Server) Do(method, path string, body any) (int, Object) {
	s.t.Helper()
	status, reply, err := s.caller().Do(method, path, body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, reply
}

// Call calls a GSE endpoint and fails the test unless its code is 0.
func (s *Server) Call(name string, body any) Object {
	s.t.Helper()
	data, err := s.caller().GSE(name, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// AwaitTask polls until no key of the task is at 115.
func (s *Server) AwaitTask(task string) Object {
	s.t.Helper()
	return s.caller().Await(s.t, task)
}
