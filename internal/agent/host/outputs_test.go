package host_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	v1 "drover/api/v1"
	"drover/internal/agent/host"
	"drover/internal/agent/launch"
	"drover/internal/process"
	"drover/internal/test/harness"
)

// held is what an output takes of the disk.
func held(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return launch.DiskUsage(info)
}

// TestFloodIsBounded: whoever writes as fast as he can is cut again and again; so is who takes room without writing.
func TestFloodIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it writes a hundred outputs of a megabyte")
	}
	dir := t.TempDir()
	h := open(t, dir)
	flood := daemon(t, h, "flood", "writer", "2>&1")
	path := filepath.Join(dir, "flood")
	h.Output("flood") // its start is over
	yes, err := h.Launch(process.ID{}, "yes", "exec yes", spec("/", "yes", ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := yes.Release(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Signal(yes.Identity(), syscall.SIGKILL) })
	var most, last int64
	cuts := 0
	harness.Eventually(t, "the flood to be cut a hundred times", func() bool {
		for range 1000 {
			now := held(filepath.Join(dir, "yes"))
			if most = max(most, now); now < last && last > launch.MaxOutput {
				cuts++
			}
			last = now
		}
		return cuts >= 100
	})
	// How far a flood gets before a cut is for the machine to say: docs/security.md has what was measured.
	t.Logf("the flood held at most %.1f MiB", float64(most)/(1<<20))
	if err := h.Signal(yes.Identity(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the rest of the flood to be cut", func() bool {
		return held(filepath.Join(dir, "yes")) <= launch.MaxOutput
	})
	// A daemon that goes on after its command, by a file that was opened as it has it.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 64<<20); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the room to be given back", func() bool { return held(path) <= launch.MaxOutput })
	if !live().Same(flood) {
		t.Error("the daemon has ended")
	}
}

// TestFloodOfAReadyFileIsBounded: a process that writes to its ready file without an end is cut again and again, and
// stays ready.
func TestFloodOfAReadyFileIsBounded(t *testing.T) {
	files := t.TempDir()
	h := open(t, t.TempDir(), func(c *host.Config) { c.Signals = files })
	s := spec("/", "yes", "")
	s.Ready = &v1.Ready{NotifyFD: new(3)}
	flood, err := h.Launch(process.ID{}, "flood", "exec yes >&3", s)
	if err != nil {
		t.Fatal(err)
	}
	if err := flood.Release(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Signal(flood.Identity(), syscall.SIGKILL) })
	path, last, cuts := filepath.Join(files, "flood"), int64(0), 0
	harness.Eventually(t, "the flood to be cut twenty times", func() bool {
		for range 1000 {
			now := held(path)
			if now < last {
				cuts++
			}
			last = now
		}
		return cuts >= 20
	})
	if said, _ := h.State("flood"); !said.Ready {
		t.Error("the process is no longer ready")
	}
	if err := h.Signal(flood.Identity(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the rest of the flood to be cut", func() bool { return held(path) <= 64<<10 })
}

// TestOutputsAreCutFirst: what daemons have written without an agent is cut before anything else.
func TestOutputsAreCutFirst(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "old")
	write(t, path, "begin\n")
	grow(t, path, 3<<20)
	if err := host.TrimOutputs(dir); err != nil || held(path) > launch.MaxOutput {
		t.Errorf("it holds %d bytes: %v", held(path), err)
	}
	if err := host.TrimOutputs(filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
}

// TestOutputThatIsWrittenKeepsItsName: what somebody goes on writing to is not taken out of sight, although no run is
// known for it.
func TestOutputThatIsWrittenKeepsItsName(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir)
	path := filepath.Join(dir, "strange")
	writer, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	h.Sweep(nothing)
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	_ = writer.Close()
	// A child that another test forks has the file open until it executes its program.
	harness.Eventually(t, "the file that nobody writes to to be removed", func() bool {
		h.Sweep(nothing)
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
}
