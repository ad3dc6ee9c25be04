package durable_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/durable"
)

// TestHeld: a file that was removed, with its directory or without, or that is another one by now, is lost.
func TestHeld(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return durable.Replace(path, []byte("x"), 0o600) },
		"moved":    func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
		"cleaned":  func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		path := filepath.Join(t.TempDir(), "data", "state.db")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		held, err := durable.Hold(path)
		if err != nil || held.Check() != nil {
			t.Fatalf("%s: at first: %v, %v", name, err, held.Check())
		}
		if err := lose(path); err != nil {
			t.Fatal(err)
		}
		if err := held.Check(); err == nil || !strings.HasPrefix(err.Error(), path+" was removed or replaced") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
