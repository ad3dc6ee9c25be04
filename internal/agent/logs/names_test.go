package logs_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drover/internal/agent/logs"
	"drover/internal/process"
	"drover/internal/test/harness"
	"drover/internal/wire"
)

// TestDirectoryOfALogComesBack: what somebody puts in the place of a log ends with the next run, and so does the note
// of it.
func TestDirectoryOfALogComesBack(t *testing.T) {
	r := newRig(t)
	r.run()
	out, _, _ := r.begin(policy(64<<10, 1000))
	write(t, out, numbered(1, 10))
	dir := filepath.Dir(r.path("stdout"))
	if err := os.WriteFile(dir+"-file", []byte("no directory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, dir+"-file", unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err) // at once, because the store makes a missing directory anew
	}
	write(t, out, numbered(11, 20))
	harness.Eventually(t, "the loss to be noted", func() bool { return r.Removed(api()) != 0 })
	out, _, _ = r.begin(policy(64<<10, 1000))
	write(t, out, numbered(21, 40))
	harness.Eventually(t, "the lines of the next run", func() bool {
		a := r.ask(wire.LogQuestion{})
		return a.err == "" && len(a.lines) >= 10 && r.Removed(api()) == 0
	})
}

// TestRemovedFileComesBack: a file that somebody removes, moves or replaces under its writer has its name back at once.
// Nothing is lost, and the bounds hold.
func TestRemovedFileComesBack(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+"-old") },
		"replaced": func(path string) error {
			if err := os.WriteFile(path+"-new", []byte("not of the process\n"), 0o600); err != nil {
				return err
			}
			return os.Rename(path+"-new", path)
		},
		"replaced by a directory":      func(path string) error { return directory(t, path) },
		"replaced by a full directory": func(path string) error { return directory(t, path, "a file") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run()
			out, _, _ := r.begin(policy(64<<10, 1000))
			is, err := out.Stat()
			if err != nil {
				t.Fatal(err)
			}
			back := func() bool {
				now, err := os.Stat(r.path("stdout"))
				return err == nil && os.SameFile(is, now)
			}
			harness.Eventually(t, "the file to be there", back)
			if err := harm(r.path("stdout")); err != nil { // before it has a text
				t.Fatal(err)
			}
			harness.Eventually(t, "the empty file to be back", back)
			write(t, out, numbered(1, 10))
			if err := harm(r.path("stdout")); err != nil {
				t.Fatal(err)
			}
			write(t, out, numbered(11, 9_000))
			harness.Eventually(t, "the file to be back", back)
			harness.Eventually(t, "the file to be rotated", func() bool { return r.rotated() > 0 })
			if a := r.ask(wire.LogQuestion{}); a.err != "" || a.lost != 0 || len(a.lines) != 9_000 {
				t.Errorf("%d lines, %d bytes lost, %q", len(a.lines), a.lost, a.err)
			}
			if since := r.Removed(api()); since != 0 {
				t.Errorf("it is missing since %d", since)
			}
		})
	}
}

// TestLooksWhileARunBegins: a log whose first run has no files yet does not count as removed, whenever the store looks.
func TestLooksWhileARunBegins(t *testing.T) {
	var said bytes.Buffer
	k, err := logs.Open(t.TempDir(), slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		id := process.ID{Namespace: "shop", Name: strconv.Itoa(n)}
		begun := make(chan error, 1)
		go func() {
			out, errs, err := k.Begin(id, process.Hash(id)[:12]+"-1", policy(64<<10, 1))
			begun <- errors.Join(err, out.Close(), errs.Close())
		}()
		for ended := false; !ended; {
			select {
			case err := <-begun:
				if ended = true; err != nil {
					t.Fatal(err)
				}
			default:
			}
			k.Look(id)
		}
		if since := k.Removed(id); since != 0 {
			t.Fatalf("%s is missing since %d", id, since)
		}
	}
	if said.Len() > 0 {
		t.Errorf("the store says %s", &said)
	}
}

// directory puts a directory with these files into the place of a file.
func directory(t *testing.T, path string, files ...string) error {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return err
		}
	}
	return unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
}

// TestDirectoriesAtAStart: a directory in the place of a log file, or of both its names, hinders neither the next agent
// nor the next run. One that is not empty is moved aside until it is as old as a rotated file may become.
func TestDirectoriesAtAStart(t *testing.T) {
	for name, c := range map[string]struct {
		places  []string
		again   bool // there is another agent before the run
		unknown bool // the process had no run before
		lines   int
	}{
		"one, another agent":  {places: []string{"stdout"}, again: true, lines: 11},
		"both, another agent": {places: []string{"stdout", ".stdout"}, again: true, lines: 1},
		"one":                 {places: []string{"stdout"}, lines: 11},
		"both":                {places: []string{"stdout", ".stdout"}, lines: 1},
		"before any run":      {places: []string{"stdout"}, unknown: true, lines: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if c.unknown {
				if err := os.MkdirAll(filepath.Join(r.path("stdout"), "full"), 0o700); err != nil {
					t.Fatal(err)
				}
			} else {
				out, _, _ := r.begin(policy(64<<10, 5))
				write(t, out, numbered(1, 10))
				for _, place := range c.places {
					if err := directory(t, r.path(place), "full"); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.again {
				r.reopen()
			}
			r.run()
			out, _, _ := r.begin(policy(64<<10, 5))
			write(t, out, "next\n")
			a := r.ask(wire.LogQuestion{Since: 1})
			if a.err != "" || len(a.lines) != c.lines || a.lines[c.lines-1] != "next" || r.Removed(api()) != 0 {
				t.Errorf("%q %q, missing since %d", a.lines, a.err, r.Removed(api()))
			}
			aside := r.path("stdout.aside")
			r.Sweep([]process.ID{api()})
			if !exists(filepath.Join(aside, "full")) {
				t.Error("the directory was not moved aside")
			}
			if err := os.Chtimes(aside, time.Time{}, time.Now().AddDate(-1, 0, 0)); err != nil {
				t.Fatal(err)
			}
			r.reopen() // it looks for old files at once
			r.Sweep([]process.ID{api()})
			if exists(aside) {
				t.Error("the directory is still there")
			}
		})
	}
}

// TestRemovedLog: if the file has lost all its names, the log says what is lost until the next run, also to the next
// agent. The next run begins a new file.
func TestRemovedLog(t *testing.T) {
	for _, again := range []bool{false, true} {
		r := newRig(t)
		stop := r.run()
		out, _, _ := r.begin(policy(64<<10, 5))
		write(t, out, numbered(1, 10))
		harness.Eventually(t, "the lines to be seen", func() bool {
			marks, err := os.ReadFile(r.path("marks"))
			return err == nil && strings.Contains(string(marks), "\nt ")
		})
		if again { // the log is there, without the file
			stop()
			for _, name := range []string{"stdout", ".stdout"} {
				if err := os.Remove(r.path(name)); err != nil {
					t.Fatal(err)
				}
			}
			r.reopen()
			r.run()
		} else if err := os.Rename(r.path(""), filepath.Join(t.TempDir(), "away")); err != nil {
			t.Fatal(err)
		}
		write(t, out, "unseen\n")
		harness.Eventually(t, "the loss to be noticed", func() bool { return r.Removed(api()) != 0 })
		out, _, _ = r.begin(policy(64<<10, 5))
		write(t, out, "next\n")
		a := r.ask(wire.LogQuestion{Since: 1})
		if want := int64(len(numbered(1, 10))); a.lost != want || len(a.lines) != 1 || a.lines[0] != "next" {
			t.Errorf("lost %d of %d, lines %q, %q", a.lost, want, a.lines, a.err)
		}
		if since := r.Removed(api()); since != 0 {
			t.Errorf("it is missing since %d", since)
		}
	}
}

// TestRemovedDirectory: a process whose log is gone altogether can start again.
func TestRemovedDirectory(t *testing.T) {
	r := newRig(t)
	r.begin(policy(64<<10, 5))
	if err := os.RemoveAll(r.path("")); err != nil {
		t.Fatal(err)
	}
	out, _, _ := r.begin(policy(64<<10, 5))
	write(t, out, "again\n")
	if a := r.ask(wire.LogQuestion{}); len(a.lines) != 1 {
		t.Errorf("%+v", a)
	}
}
