package inspect

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// lock takes the lock of a file, as the store of an agent does.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	file, err := os.Create(path)
	if err == nil {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		t.Error(err)
	}
	return func() { _ = file.Close() }
}

// TestLocked: a lock that is held is seen, and one that is free stays free.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if held, err := locked(path); err != nil || held {
		t.Errorf("no file: %t, %v", held, err)
	}
	for range 2 {
		unlock := lock(t, path)
		if held, err := locked(path); err != nil || !held {
			t.Errorf("held: %t, %v", held, err)
		}
		unlock()
		if held, err := locked(path); err != nil || held {
			t.Errorf("released: %t, %v", held, err)
		}
	}
}
