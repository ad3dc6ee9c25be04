package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestREADME: the figures of the README are those of the newest files; go run ./test/bench/table -w makes them so.
func TestREADME(t *testing.T) {
	t.Chdir("../../..")
	want, err := block("bench/results")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _, err := cut(string(readme))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf(
			"figures of the README are not those of bench/results (-want +got); run go run ./test/bench/table -w\n%s",
			diff)
	}
	if n := strings.Count(got, "\n|"); n > 25 {
		t.Errorf("the tables have %d lines, more than 25: they are to be short", n)
	}
}

// files are small files of figures.
func files() []string {
	return []string{"2026-01-02-bench.md", "2026-01-02-fleet.md", "2026-01-02-peers.md", "2026-01-02-scale.md"}
}

// TestBlock makes the table from small files of figures.
func TestBlock(t *testing.T) {
	dir := t.TempDir()
	for _, name := range files() {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// An older file counts nothing.
	if err := os.WriteFile(filepath.Join(dir, "2025-12-31-bench.md"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := block(dir)
	if err != nil {
		t.Fatal(err)
	}
	got = strings.ReplaceAll(got, dir, "DIR")
	golden, err := os.ReadFile("testdata/block.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), got); diff != "" {
		t.Errorf("the block is another one (-want +got):\n%s", diff)
	}
}

// TestFiguresThatAreMissing: a file that lacks what is shown is an error, not a table with holes.
func TestFiguresThatAreMissing(t *testing.T) {
	for _, test := range []struct{ name, file, old, replaced, want string }{
		{"a row", "2026-01-02-bench.md", "| poll ", "| pull ", `no row begins with "poll "`},
		{"a column", "2026-01-02-bench.md", "p50 ratio", "ratio    ", `no column "p50 ratio"`},
		{"a table", "2026-01-02-peers.md", "| at rest ", "| resting ", `no table "at rest"`},
		{"drover", "2026-01-02-peers.md", "| drover ", "| rover ", "there is no drover"},
		{
			"a row of many agents", "2026-01-02-scale.md", "| query to all, every", "| query to many, every",
			`no row begins with "query to all, every answer back"`,
		},
		{"a column of many agents", "2026-01-02-scale.md", "| bare NATS ", "| bear NATS ", `no column "bare NATS"`},
		{"a tool", "2026-01-02-fleet.md", "| pdsh ", "| posh ", "there is no pdsh"},
		{"a column of a size", "2026-01-02-fleet.md", "| status of all ", "| state of all ", `no column "status of all"`},
		{"the number", "2026-01-02-peers.md", "* many is 50", "* many", "how many processes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range files() {
				data, err := os.ReadFile(filepath.Join("testdata", name))
				if err != nil {
					t.Fatal(err)
				}
				text := string(data)
				if name == test.file {
					text = strings.ReplaceAll(text, test.old, test.replaced)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := block(dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	if _, err := block(t.TempDir()); err == nil {
		t.Error("an empty directory has figures")
	}
	if _, _, _, err := cut("# a README without marks\n"); err == nil {
		t.Error("a README without marks has a table")
	}
}
