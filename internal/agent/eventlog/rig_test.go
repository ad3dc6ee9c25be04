package eventlog_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drover/internal/agent/eventlog"
	"drover/internal/process"
)

// open opens the log in a directory; who needs it closed before the test ends closes it.
func open(t *testing.T, dir string) *eventlog.Log {
	t.Helper()
	l, err := eventlog.Open(eventlog.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// happened is an event that is told from others by its pid.
func happened(n int) process.Event {
	return process.Event{
		At: int64(1000 + n), PID: n, Process: process.ID{Namespace: "ns", Name: fmt.Sprint("p", n)},
		Kind: process.EventExited,
		From: "running", To: "backoff",
	}
}

func appendAll(l *eventlog.Log, from, to int) {
	for n := from; n <= to; n++ {
		l.Append(happened(n))
	}
}

// pending returns all that is pending.
func pending(t *testing.T, l *eventlog.Log) [][]byte {
	t.Helper()
	all, more := l.Pending(1<<20, 1<<30)
	if more {
		t.Error("all was asked for, and there is more")
	}
	return all
}

// decoded returns events as they were appended. An event in a damaged file may have fields of other types.
func decoded(lines [][]byte) []process.Event {
	all := make([]process.Event, len(lines))
	for i, line := range lines {
		_ = json.Unmarshal(line, &all[i])
	}
	return all
}

// pids are what the events are told apart by.
func pids(lines [][]byte) []int {
	all := []int{}
	for _, e := range decoded(lines) {
		all = append(all, e.PID)
	}
	return all
}

func upTo(from, to int) []int {
	all := []int{}
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// segments returns the paths of the segments in a directory, oldest first.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	must(t, err)
	slices.Sort(all)
	return all
}

// spoil changes the content of a file.
func spoil(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, change(data), 0o600))
}

// disk makes segments on which there is room for a while. It counts what is synced.
type disk struct {
	mu sync.Mutex
	// room is how many bytes still fit; negative is no bound.
	room  int
	stuck bool // a half-written line cannot be taken back
	syncs int
}

func (d *disk) create(path string) (eventlog.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room == 0 {
		return nil, syscall.ENOSPC
	}
	f, err := eventlog.Create(path)
	return &limited{File: f, disk: d}, err
}

// has sets how much room there is.
func (d *disk) has(room int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = room
}

func (d *disk) synced() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

type limited struct {
	eventlog.File
	disk *disk
}

func (f *limited) Write(line []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.room < 0 || len(line) <= f.disk.room {
		if f.disk.room > 0 {
			f.disk.room -= len(line)
		}
		return f.File.Write(line)
	}
	n, _ := f.File.Write(line[:f.disk.room])
	f.disk.room = 0
	return n, syscall.ENOSPC
}

func (f *limited) Truncate(size int64) error {
	if f.disk.stuck {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

func (f *limited) Sync() error {
	f.disk.mu.Lock()
	f.disk.syncs++
	f.disk.mu.Unlock()
	return f.File.Sync()
}
