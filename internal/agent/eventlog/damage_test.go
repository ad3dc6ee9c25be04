package eventlog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"drover/internal/process"
)

// damaged returns a log whose only file was changed between two lives.
func damaged(t *testing.T, change func([]byte) []byte) (got [][]byte, dir string) {
	t.Helper()
	dir = t.TempDir()
	l := open(t, dir)
	appendAll(l, 1, 10)
	must(t, l.Close())
	spoil(t, segments(t, dir)[0], change)
	return pending(t, open(t, dir)), dir
}

func TestDamage(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(data []byte) []byte
		want   []int
	}{
		"torn at the end":  {func(data []byte) []byte { return data[:len(data)-5] }, upTo(1, 9)},
		"nothing":          {func([]byte) []byte { return nil }, []int{}},
		"no end of a line": {func(data []byte) []byte { return data[:len(data)-1] }, upTo(1, 9)},
		"zeroes at the end": {func(data []byte) []byte {
			clear(data[bytes.LastIndexByte(data[:len(data)-1], '\n')+1:])
			return data
		}, upTo(1, 9)},
		"zeroes in the middle": {func(data []byte) []byte {
			lines := bytes.SplitAfter(data, []byte("\n"))
			clear(lines[4][:len(lines[4])-1])
			return data
		}, append(upTo(1, 4), upTo(6, 10)...)},
		"a line that is too long": {func(data []byte) []byte {
			return append(append(bytes.Repeat([]byte("x"), 3<<20), '\n'), data...)
		}, upTo(1, 10)},
		"a line without end that is too long": {func(data []byte) []byte {
			return append(data, bytes.Repeat([]byte("x"), 3<<20)...)
		}, upTo(1, 10)},
		"empty lines and objects": {func(data []byte) []byte {
			return append([]byte("\n{}\nnull\n{\"stream\":\"a\"}\n{\"seq\":1}\n[]\n"), data...)
		}, upTo(1, 10)},
	} {
		got, dir := damaged(t, tt.change)
		same(t, name, tt.want, pids(got))
		l := open(t, dir)
		appendAll(l, 11, 11)
		l.Acknowledge(pending(t, l))
		if left := pending(t, l); len(left) > 0 {
			t.Errorf("%s: %v are left", name, pids(left))
		}
	}
}

// TestOnlyDamage: a file without any event is read once and then passed over.
func TestOnlyDamage(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	appendAll(l, 1, 3)
	must(t, l.Close())
	spoil(t, segments(t, dir)[0], func([]byte) []byte { return []byte("garbage\ngarbage\n") })
	l = open(t, dir)
	same(t, "pending", []int{}, pids(pending(t, l)))
	note, err := os.ReadFile(filepath.Join(dir, "acknowledged"))
	if want := "00000000000000000001 00000000000000000016\n"; err != nil || string(note) != want {
		t.Errorf("the note is %q, want %q (%v)", note, want, err)
	}
}

// TestFileThatIsGone: what was removed by hand holds nothing up.
func TestFileThatIsGone(t *testing.T) {
	dir := t.TempDir()
	for life := range 3 {
		l := open(t, dir)
		appendAll(l, 10*life+1, 10*life+10)
		must(t, l.Close())
	}
	l := open(t, dir)
	must(t, os.Remove(segments(t, dir)[1]))
	all := pending(t, l)
	same(t, "pending", append(upTo(1, 10), upTo(21, 30)...), pids(all))
	l.Acknowledge(all)
	same(t, "left", []int{}, pids(pending(t, l)))
}

// TestNamesSortAsTheirNumbers: files are read by their numbers, also where a number has one digit more than the other.
func TestNamesSortAsTheirNumbers(t *testing.T) {
	dir := t.TempDir()
	for life := range 2 {
		l := open(t, dir)
		appendAll(l, 10*life+1, 10*life+10)
		must(t, l.Close())
	}
	for i, old := range segments(t, dir) {
		must(t, os.Rename(old, filepath.Join(dir, fmt.Sprintf("%020d.jsonl", 9_999_999_999_999_999+i))))
	}
	same(t, "pending", upTo(1, 20), pids(pending(t, open(t, dir))))
}

// TestNoDescriptors: an agent that can open no file now loses nothing that it had written.
func TestNoDescriptors(t *testing.T) {
	l := open(t, t.TempDir())
	appendAll(l, 1, 5)
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	restore := func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }
	none := syscall.Rlimit{Cur: 1, Max: limit.Max}
	defer restore()
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	same(t, "pending without descriptors", []int{}, pids(pending(t, l)))
	restore()
	all := pending(t, l)
	same(t, "pending", upTo(1, 5), pids(all))
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	l.Acknowledge(all[:2])
	restore()
	l.Acknowledge(all[:2])
	same(t, "left", upTo(3, 5), pids(pending(t, l)))
}

// TestDamagedNote: without a note of what the server has, all of it is told again.
func TestDamagedNote(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"empty":   func([]byte) []byte { return nil },
		"zeroes":  func(note []byte) []byte { clear(note); return note },
		"short":   func(note []byte) []byte { return note[:30] },
		"garbage": func([]byte) []byte { return []byte("00000000000000000001 -0000000000000000001\n") },
	} {
		dir := t.TempDir()
		l := open(t, dir)
		appendAll(l, 1, 5)
		l.Acknowledge(pending(t, l))
		spoil(t, filepath.Join(dir, "acknowledged"), change)
		l = open(t, dir)
		same(t, name, upTo(1, 5), pids(pending(t, l)))
		l.Acknowledge(pending(t, l))
		same(t, name+", then", []int{}, pids(pending(t, open(t, dir))))
	}
}

// TestNoteThatCannotBeWritten: the log works without.
func TestNoteThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "acknowledged"), 0o700))
	l := open(t, dir)
	appendAll(l, 1, 5)
	l.Acknowledge(pending(t, l)[:2])
	same(t, "left", upTo(3, 5), pids(pending(t, l)))
}

// FuzzSegment: whatever is in a file and in the note, what comes after it is told once, and nothing falls over.
func FuzzSegment(f *testing.F) {
	line := `{"stream":"a","seq":1,"at":5,"process":{"namespace":"n","name":"m"},"kind":"exited"}` + "\n"
	f.Add([]byte(line), []byte("00000000000000000001 00000000000000000000\n"))
	f.Add([]byte(line+line[:20]), []byte("00000000000000000001 00000000000000000086\n"))
	f.Add([]byte(line+"\x00\x00\n"+line), []byte("00000000000000000009 00000000000000000086\n"))
	f.Add([]byte("\n\n{}"), []byte{})
	f.Fuzz(func(t *testing.T, content, note []byte) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "00000000000000000001.jsonl"), content, 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "acknowledged"), note, 0o600))
		l := open(t, dir)
		before := pending(t, l)
		for _, line := range before {
			if !json.Valid(line) {
				t.Errorf("%q would spoil a report", line)
			}
		}
		e := happened(1)
		e.Kind = process.EventReloaded // a file cannot have it already
		l.Append(e)
		all := pending(t, l)
		if len(all) != len(before)+1 || decoded(all)[len(before)].Process.Name != "p1" {
			t.Errorf("%d events, then %d", len(before), len(all))
		}
		l.Acknowledge(all)
		if left := pending(t, open(t, dir)); len(left) > 0 {
			t.Errorf("%d are left", len(left))
		}
	})
}

// TestRemovedDirectory: somebody removes the directory while the log writes to it. The events that were written and not
// acknowledged stay pending, also for the next agent.
func TestRemovedDirectory(t *testing.T) {
	for _, what := range []string{"directory", "segment"} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "events")
			l := open(t, dir)
			appendAll(l, 1, 4)
			lines := pending(t, l)
			l.Acknowledge(lines[:2])
			remove := dir
			if what == "segment" {
				remove = segments(t, dir)[0]
			}
			must(t, os.RemoveAll(remove))
			appendAll(l, 5, 6)
			same(t, "pending", []int{3, 4, 5, 6}, pids(pending(t, l)))
			l.Acknowledge(pending(t, l)[:3])
			must(t, l.Close())
			next := open(t, dir)
			appendAll(next, 7, 7)
			same(t, "pending for the next agent", []int{6, 7}, pids(pending(t, next)))
			must(t, os.RemoveAll(dir))
			next.Acknowledge(pending(t, next))
			same(t, "pending after all", []int{}, pids(pending(t, next)))
			appendAll(next, 8, 8)
			same(t, "pending at last", []int{8}, pids(pending(t, next)))
		})
	}
}
