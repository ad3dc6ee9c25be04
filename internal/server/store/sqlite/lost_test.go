package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFileThatWasRemoved: nothing is accepted that the next server would not know.
func TestFileThatWasRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover.db")
	db := open(t, path)
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "was removed or replaced") {
		t.Errorf("a write to a file that was removed: %v", err)
	}
}
