package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"drover/internal/durable"
)

// alone fails unless the directory of a file holds nothing else, and the file has these contents and this mode.
func alone(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("the file holds %q, %v; want %q", got, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != mode {
		t.Errorf("its mode is %v, %v; want %v", info.Mode(), err, mode)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside it are %v, %v", entries, err)
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, step := range []struct {
		text string
		mode fs.FileMode
	}{{"one", 0o600}, {"another", 0o644}, {"", 0o600}} {
		if err := durable.Replace(path, []byte(step.text), step.mode); err != nil {
			t.Fatal(err)
		}
		alone(t, path, step.text, step.mode)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := durable.Create(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.Create(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name that is taken: %v", err)
	}
	alone(t, path, "first", 0o600)
}

func TestWhatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Replace(path, []byte("text"), 0o600); err == nil {
		t.Error("a directory that holds something was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if err := durable.Replace(filepath.Join(dir, "nowhere", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
