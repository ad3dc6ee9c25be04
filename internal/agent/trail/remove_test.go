package trail_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"drover/internal/agent/trail"
)

// TestRemove: whatever somebody has put into a directory goes, however deep it is, with two descriptors; what a link
// leads to stays.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	kept, path := filepath.Join(dir, "kept"), filepath.Join(dir, "tree")
	for _, d := range []string{kept, path, filepath.Join(path, ".removed-1", "a"), filepath.Join(path, "b", "c")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(kept, "file"), filepath.Join(path, "b", "file")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(kept, filepath.Join(path, "b", "link")); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(path, "b", strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	for range 5000 {
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o700)
		}
		next, failed := unix.Openat(at, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err = errors.Join(err, failed, unix.Close(at)); err != nil {
			t.Fatal(err)
		}
		at = next
	}
	_ = unix.Close(at)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err = trail.Remove(path)
	if failed := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); failed != nil {
		t.Fatal(failed)
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(kept, "file")); err != nil {
		t.Error(err)
	}
	if err := trail.Remove(path); err != nil {
		t.Errorf("of a directory that is gone: %v", err)
	}
}
