package processfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"drover/internal/process"
	"drover/internal/processfile"
)

// TestExamples: the files of examples/ are right, and agents carry out all that they say.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "processes", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := processfile.Read(filepath.Base(name), text)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range docs[0].Processes {
			spec := processfile.Canonical(p.Spec)
			for _, f := range processfile.FaultsOf(&spec, process.Start) {
				t.Errorf("%s: %s: %v", name, p.Name, f)
			}
		}
	}
}
