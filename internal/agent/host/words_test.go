package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLastWords: the end of a log, in whole lines, as far as it was written in the life of the process.
func TestLastWords(t *testing.T) {
	dir := t.TempDir()
	h := open(t, t.TempDir())
	s := spec(dir, "daemon", "")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("short", "one\ntwo\n\n")
	var long strings.Builder
	for n := range 10_000 {
		fmt.Fprintf(&long, "line %d\n", n)
	}
	write("long", long.String())
	write("one-line", strings.Repeat("x", 40_000))
	if err := os.Symlink("short", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"short", "long", "one-line"} {
		at := time.Now().Add(time.Duration(i-10) * time.Second)
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	since := time.Now().Add(-time.Minute)
	for path, want := range map[string]string{
		"": "", "short": "one\ntwo", dir + "/short": "one\ntwo", "missing": "", "link": "one\ntwo", "fifo": "",
		"empty": "", ".": strings.Repeat("x", 32<<10), // the newest file of a directory
		"/dev/zero": "",
		"one-line":  strings.Repeat("x", 32<<10),
	} {
		s.LogFile = path
		if got := h.LastWords(s, since); got != want {
			t.Errorf("%s: %.100q, want %.100q", path, got, want)
		}
	}
	s.LogFile = "long"
	if got := h.LastWords(s, since); len(got) > 32<<10 || len(got) < 32<<10-20 || !strings.HasPrefix(got, "line ") ||
		!strings.HasSuffix(got, "\nline 9999") {
		t.Errorf("%d bytes of a long log: %.30q", len(got), got)
	}
	if got := h.LastWords(s, time.Now().Add(time.Minute)); got != "" {
		t.Errorf("older words are told: %.30q", got)
	}
}
