// Package harness runs the real drover binary for black-box tests and speaks to it as its callers do. It is for tests only,
// and for packages whose TestMain runs them in a pid namespace of their own (pidns).
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"drover/test/openapi"
)

// Patience is how long anything may take before a test fails: the machines that run the tests are shared and slow.
const Patience = 90 * time.Second

// Credentials of the app that the tests are.
const (
	AppCode   = "tests"
	AppSecret = "tests-secret-0123456789"
)

// Agent is what the local agent is called.
const Agent = "0:127.0.0.1"

// Build builds a package of the module into dir and returns the path of the binary. It is for TestMain.
func Build(dir, pkg string) (string, error) {
	binary := filepath.Join(dir, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", binary, pkg)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

// Root is the directory of the module.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Server is a running drover dev.
type Server struct {
	t       testing.TB
	binary  string
	DataDir string
	URL     string
	cmd     *exec.Cmd
	ended   chan error
	out     *output
	log     *os.File
	env     []string
	flags   []string
}

// Start runs drover dev on a new data directory, with the tests' app as its first, and waits until it takes calls. It is
// ended with the test; what it started then ends with the pid namespace.
func Start(t testing.TB, binary string, flags ...string) *Server {
	t.Helper()
	return StartIn(t, binary, []string{"DROVER_BOOTSTRAP_APP_CODE=" + AppCode, "DROVER_BOOTSTRAP_APP_SECRET=" + AppSecret}, flags...)
}

// StartIn is Start with an environment of PATH, HOME and the given variables only.
func StartIn(t testing.TB, binary string, env []string, flags ...string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "drover-test-") //nolint:usetesting // what a daemon still writes there must not fail the test
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, binary: binary, DataDir: filepath.Join(dir, "data"), flags: flags}
	s.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	s.log, err = os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			log, _ := os.ReadFile(s.log.Name())
			t.Logf("log of drover:\n%s", tail(log, 20000))
		}
		_ = s.log.Close()
		_ = os.RemoveAll(dir)
	})
	s.Run()
	return s
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// Run starts the server again after Kill or Terminate, with these flags besides its own, and waits until it takes calls.
func (s *Server) Run(flags ...string) {
	s.t.Helper()
	listen := "127.0.0.1:0"
	if s.URL != "" {
		listen = strings.TrimPrefix(s.URL, "http://")
	}
	s.cmd = exec.Command(s.binary, append([]string{"dev", "--data-dir", s.DataDir, "--http", listen, "--log-level", "info"}, slices.Concat(s.flags, flags)...)...)
	s.cmd.Env = s.env
	s.cmd.Stderr = s.log
	s.out = newOutput()
	s.cmd.Stdout = s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan<- error) { ended <- cmd.Wait() }(s.cmd, s.ended)
	select {
	case s.URL = <-s.out.url:
	case err := <-s.ended:
		s.ended <- err
		s.t.Fatalf("drover ended before it was ready: %v", err)
	case <-time.After(Patience):
		s.t.Fatal("drover did not become ready")
	}
}

// Output is what the server has written to its standard output since Run.
func (s *Server) Output() string { return s.out.String() }

// Kill ends the server by SIGKILL, as if it had crashed.
func (s *Server) Kill() { _ = s.end(syscall.SIGKILL) } // it says that it was killed

// Terminate asks the server to end and waits until it has.
func (s *Server) Terminate() error { return s.end(syscall.SIGTERM) }

func (s *Server) end(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	_ = s.cmd.Process.Signal(sig)
	select {
	case err := <-s.ended:
		s.cmd = nil
		return err
	case <-time.After(Patience):
		s.t.Error("drover did not end")
		return nil
	}
}

// PID is the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Object is a JSON object.
type Object = map[string]any

// Do calls a path with the tests' credentials in the header and returns status and decoded body.
func (s *Server) Do(method, path string, body any) (int, Object) {
	s.t.Helper()
	data, ok := body.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(body); err != nil {
			s.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(data))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Bkapi-Authorization", fmt.Sprintf(`{"bk_app_code":%q,"bk_app_secret":%q,"bk_username":"tester"}`, AppCode, AppSecret))
	resp, err := openapi.NewClient(s.t, http.DefaultClient).Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	reply := Object{}
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		s.t.Fatalf("%s %s: reply is no JSON object: %v", method, path, err)
	}
	return resp.StatusCode, reply
}

// Call calls a GSE endpoint and fails the test unless its code is 0.
func (s *Server) Call(name string, body any) Object {
	s.t.Helper()
	status, reply := s.Do(http.MethodPost, "/api/c/compapi/v2/gse/"+name+"/", body)
	if status != http.StatusOK || reply["code"] != 0.0 {
		s.t.Fatalf("%s: HTTP %d, %v", name, status, reply)
	}
	data, _ := reply["data"].(Object)
	return data
}
