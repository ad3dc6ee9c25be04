package host_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/agent/host"
	"drover/internal/agent/logs"
	"drover/internal/process"
	"drover/internal/wire"
)

// TestOutputOfAProcess: the two streams of a foreground process go to its log, and the commands around it have an
// output of their own. The agent holds no descriptor of the log.
func TestOutputOfAProcess(t *testing.T) {
	dir := t.TempDir()
	store, err := logs.Open(filepath.Join(dir, "log"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, filepath.Join(dir, "output"), func(c *host.Config) { c.Logs = store })
	id := process.ID{Namespace: "shop", Name: "api"}
	s := spec("/", "", "")
	s.Run = "echo to stdout; echo to stderr >&2; (read -r line <&1) 2>/dev/null && echo read"
	run := process.Hash(id)[:12] + "-1"
	child, err := h.Launch(id, run, process.Replacing(s.Run), s)
	if err != nil {
		t.Fatal(err)
	}
	release(t, child)
	if got := h.Output(run); got != "to stdout\nto stderr" {
		t.Errorf("the process wrote %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "output", run)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the process has an output of its own: %v", err)
	}
	if links := openFiles(t, filepath.Join(dir, "log")); links != 0 {
		t.Errorf("the agent has %d files of the log open", links)
	}
	child, err = h.Launch(id, run+"1", "echo stopping >&2", s)
	if err != nil {
		t.Fatal(err)
	}
	release(t, child)
	if got := h.Output(run + "1"); got != "stopping" {
		t.Errorf("the command wrote %q", got)
	}
	a := store.Answer(context.Background(), wire.LogQuestion{Process: id, Stream: "stderr"})
	if len(a.Blocks) != 1 || string(a.Blocks[0].Text) != "to stderr" {
		t.Errorf("the log has %+v", a)
	}
	h.Sweep(nothing)
	if got := h.Output(run); got != "to stdout\nto stderr" {
		t.Errorf("after a sweep the process wrote %q", got)
	}
}

// TestOutputToPipes: a process of another account may open its output by name. When it has ended, nothing that it has
// written is missing.
func TestOutputToPipes(t *testing.T) {
	dir := t.TempDir()
	store, err := logs.Open(filepath.Join(dir, "log"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, filepath.Join(dir, "output"), func(c *host.Config) { c.Logs = store })
	id := process.ID{Namespace: "shop", Name: "api"}
	for n, account := range []string{"root", "nobody"} {
		s := spec("/", account, "")
		s.Log = &v1.Log{Pipe: true}
		s.Run = "echo one > /dev/stdout; echo two | tee /dev/stderr; exec > /dev/stdout 2> /dev/stderr; " +
			"sleep 0.01; echo three; exec /bin/echo four >&2"
		run := process.Hash(id)[:12] + "-" + strconv.Itoa(n)
		child, err := h.Launch(id, run, process.Replacing(s.Run), s)
		if err != nil {
			t.Fatal(err)
		}
		release(t, child) // nobody reads before it has ended
		if got, want := h.Output(run), "one\ntwo\nthree\ntwo\nfour"; got != want {
			t.Errorf("%s: %q, want %q", account, got, want)
		}
	}
}

// openFiles counts the descriptors of this program for files below a directory.
func openFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if target, err := os.Readlink(fd); err == nil && filepath.Dir(filepath.Dir(target)) == dir {
			n++
		}
	}
	return n
}
