package processfile_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"drover/internal/processfile"
)

var update = flag.Bool("update", false, "write what is wanted again")

func file(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(file(t, name)), got); d != "" {
		t.Errorf("%s (- wanted, + got):\n%s", name, d)
	}
}

// same ignores where in a file a process stands.
func same() cmp.Option {
	return cmp.Options{
		cmpopts.IgnoreUnexported(processfile.Named{}, processfile.Document{}), cmpopts.IgnoreFields(processfile.Named{}, "Line"),
	}
}

// TestRead: defaults are merged, null takes one away, and what is written is read as the same.
func TestRead(t *testing.T) {
	docs, err := processfile.Read("shop.yaml", file(t, "shop.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := processfile.Write(docs)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "shop.written.yaml", string(text))
	again, err := processfile.Read("shop.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(docs, again, same()); d != "" {
		t.Error(d)
	}
}

// TestFaults: all faults of a file are found at once, each with its line, its field and what was expected.
func TestFaults(t *testing.T) {
	docs, err := processfile.Read("bad.yaml", file(t, "bad.yaml"))
	if err == nil || docs != nil {
		t.Fatalf("%v, %v", docs, err)
	}
	golden(t, "bad.txt", err.Error()+"\n")
}
