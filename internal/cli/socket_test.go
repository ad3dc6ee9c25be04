package cli_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drover/internal/test/harness"
)

// TestSocketIsTheOwnersOnly: nobody else may open it, and one who can all the same is asked for credentials.
func TestSocketIsTheOwnersOnly(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	socket := filepath.Join(s.DataDir, "drover.sock")
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode != fs.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v", mode)
	}
	stranger := func() (int, string) {
		cmd := exec.Command(binaries.drover, "agents", "--data-dir", s.DataDir)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		return exitCode(cmd.Run()), stderr.String()
	}
	for dir := s.DataDir; dir != "/"; dir = filepath.Dir(dir) { // let strangers as far as the socket
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o005 == 0o005 {
			continue
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if code, text := stranger(); code != 6 || !strings.Contains(text, "permission denied") {
		t.Errorf("a stranger at a closed socket: exit code %d, %s", code, text)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, text := stranger(); code != 5 || !strings.Contains(text, "no credentials") {
		t.Errorf("a stranger at an open socket: exit code %d, %s", code, text)
	}
	run(t, s, "agents")
}

// TestSocketOutlivesNoServer: it is replaced after a crash, and removed at a regular end.
func TestSocketOutlivesNoServer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	s.Kill()
	s.Run()
	run(t, s, "agents")
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.DataDir, "drover.sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket of a server that has ended: %v", err)
	}
}

// TestSocketThatACleanerRemoves: the server listens again, and answers no callers as a file that is another's.
func TestSocketThatACleanerRemoves(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, binaries.drover)
	path := filepath.Join(s.DataDir, "drover.sock")
	for _, replaced := range []bool{false, true} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if replaced {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		harness.Eventually(t, "the server to listen again", func() bool {
			info, err := os.Lstat(path)
			return err == nil && info.Mode().Type() == fs.ModeSocket
		})
		run(t, s, "agents")
	}
}

// TestSocketInADeepDirectory: the kernel takes no more than 107 bytes for the path of a socket.
func TestSocketInADeepDirectory(t *testing.T) {
	t.Parallel()
	deep := filepath.Join(harness.Workdir(t), strings.Repeat("d", 60), strings.Repeat("e", 60))
	s := harness.Start(t, binaries.drover, "--data-dir", deep)
	out, err := exec.Command(binaries.drover, "agents", "--data-dir", deep).CombinedOutput()
	if err != nil || !strings.Contains(string(out), harness.Agent) {
		t.Errorf("%v: %s", err, out)
	}
	if err := s.Terminate(); err != nil {
		t.Error(err)
	}
}
