package specstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drover/internal/agent/pidns"
	"drover/internal/agent/record"
	"drover/internal/agent/specstore"
	"drover/internal/process"
	"drover/internal/test/harness"
)

func TestMain(m *testing.M) { os.Exit(pidns.Run(m)) }

// TestFullDisk: what ends a process is journalled with its progress and outcome, all else is refused and says why.
func TestFullDisk(t *testing.T) {
	dir := harness.SmallDisk(t, "8m")
	s := open(t, dir, boot)
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 1<<16); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	order := func(item string, n int, op process.Op) record.Entry {
		e := entry(item, n)
		e.Op = op
		e.Actor.User = strings.Repeat("u", 32<<10) // so that the pages that are free in the file do not hold it
		return e
	}
	refused := func() (err error) {
		for n := range 20 {
			if _, _, err = s.Accept([]record.Entry{order("start-"+string(rune('a'+n)), n,
				process.Start)}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := refused(); err == nil || !strings.Contains(err.Error(), "the disk of the agent is full") {
		t.Fatalf("starts on a full disk: %v", err)
	}
	for n, op := range []process.Op{process.Stop, process.Kill, process.Unhost, process.Stop} {
		e := order("end-"+string(rune('a'+n)), 100+n, op)
		if _, _, err := s.Accept([]record.Entry{e}); err != nil {
			t.Fatalf("%s on a full disk: %v", op, err)
		}
		if err := s.PutProgress(e.Item,
			record.Progress{Steps: []record.Step{{Name: strings.Repeat("s", 32<<10)}}}); err != nil {
			t.Errorf("progress of a %s: %v", op, err)
		}
		if err := s.Finish(e.Item, e.Process, success(), specstore.Change{}); err != nil {
			t.Errorf("outcome of a %s: %v", op, err)
		}
	}
	if err := refused(); err == nil {
		t.Error("a start took the room that was given up")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := refused(); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
