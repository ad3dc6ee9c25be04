package launch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/launch"
)

// TestTheDirectoryOfACommand: it is entered whatever it is called, and nothing tells the command how. One that is not
// there ends the child at its gate.
func TestTheDirectoryOfACommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `it's a "$HOME" \ -P`, "-", "* ;\n#")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	out := output(t)
	c := command(t, `[ "$(pwd -P)" = "$PWD" ] && pwd -P; echo "$# $0"; env | grep -E "^(OLDPWD|DROVER_GATE)"`, out)
	c.Dir = dir
	do(t, c)
	if got, want := out.Text(), dir+"\n0 /bin/sh"; got != want {
		t.Errorf("it said %q, want %q", got, want)
	}
	c = command(t, "echo ran", output(t))
	c.Dir = dir + "/none"
	child, err := forker().Start(c)
	if err != nil { // it may have ended before anybody has looked
		return
	}
	defer child.Abandon()
	if status := wait(t, child); status.ExitStatus() != launch.UnrunStatus {
		t.Errorf("without its directory it ends with %#x", status)
	}
}

// TestADirectoryThatHangs: whoever owns the file system of the directory holds up his own command, and nobody else's.
func TestADirectoryThatHangs(t *testing.T) {
	nobody, err := launch.LookupAccount("/", "nobody")
	if err != nil || !others() {
		return
	}
	dir := t.TempDir()
	for up := dir; up != "/tmp" && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody ever reads from it, so nothing below the directory is answered.
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	options := fmt.Sprintf("fd=%d,rootmode=040755,user_id=%d,group_id=%d,allow_other", server, nobody.UID, nobody.GID)
	if err := unix.Mount("nothing", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		_ = unix.Close(server)
		return
	}
	defer func() {
		_ = unix.Close(server)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	f := forker()
	stop, err := f.Begin()
	if err != nil {
		f = forker()
	} else {
		defer stop()
	}
	c := command(t, "echo ran", output(t))
	c.Account, c.Dir = nobody, dir
	child, err := f.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Release(); err != nil {
		t.Error(err)
	}
	if got := said(t, f, "echo another"); strings.TrimSpace(got) != "another" {
		t.Errorf("another command said %q", got)
	}
	if err := unix.Kill(child.Identity().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := wait(t, child); status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %#x", status)
	}
}
