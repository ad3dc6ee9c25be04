package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/pidns"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

func TestLife(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "tickd")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("cannot build tickd: %v\n%s", err, out)
	}
	tickd := func(command string) error { return exec.Command(bin, command, "-dir", dir).Run() }
	must := func(command string) {
		t.Helper()
		if err := tickd(command); err != nil {
			t.Fatalf("tickd %s: %v", command, err)
		}
	}
	refused := func(command string) {
		t.Helper()
		if err := tickd(command); err == nil {
			t.Errorf("tickd %s ended with 0", command)
		}
	}
	daemon := func() (pid, fd int) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "tickd.pid"))
		if err != nil {
			t.Fatal(err)
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil || pid <= 1 {
			t.Fatalf("pid file holds %q", text)
		}
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return pid, fd
	}

	refused("stop")
	must("start")
	first, fd := daemon()
	refused("start")
	if err := os.WriteFile(filepath.Join(dir, "tickd.conf"), []byte("0.01\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must("reload")
	awaitText(t, filepath.Join(dir, "tickd.log"), "tick number=2")
	if again, _ := daemon(); again != first {
		t.Errorf("a reload changed the pid from %d to %d", first, again)
	}

	// A stale pid file is no running daemon.
	if err := unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := pidns.AwaitReaped(fd); err != nil {
		t.Fatal(err)
	}
	refused("stop")
	must("start")
	second, fd := daemon()
	if second == first {
		t.Errorf("still pid %d", first)
	}
	must("stop")
	if err := pidns.AwaitEnd(fd); err != nil {
		t.Error(err)
	}
	refused("stop")
}

func awaitText(t *testing.T, path, text string) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.After(20 * time.Second); ; {
		got, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(got), text) {
			return
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("%s never held %q: %s", path, text, got)
		}
	}
}
