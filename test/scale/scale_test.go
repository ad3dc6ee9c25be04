package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"drover/internal/agent/pidns"
	"drover/test/bench/lab"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if stage := stages()[os.Args[1]]; stage != nil {
			if err := stage(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(pidns.Run(m))
}

// TestFew measures what is measured at full size with a few agents: they join, connect and answer, and come back to a
// server that was killed; one request reaches as many hosts as it may have.
func TestFew(t *testing.T) {
	t.Chdir("../..")
	l, err := lab.New(t.Context(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	b, err := newBench(t.Context(), l, lab.Options{Many: 20, Rounds: 1, Window: 100 * time.Millisecond}, &lab.Report{},
		8)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.measure(t.Context(), "bare,rest,query,start,status,absent,herd"); err != nil {
		t.Fatal(err)
	}
	if n := len(b.rows.Rows); n != 13 {
		t.Errorf("%d figures: %q", n, b.rows.Rows)
	}
	for _, row := range b.rows.Rows {
		if len(row) != len(b.rows.Head) {
			t.Errorf("a row has %d cells, and the table %d columns: %q", len(row), len(b.rows.Head), row)
		}
	}
}
