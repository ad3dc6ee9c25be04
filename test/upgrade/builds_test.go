package upgrade_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"drover/internal/test/harness"
)

// edit is a text of a file of the tree, and what a later version has there instead.
type edit struct{ file, old, new string }

// marks are what the next version writes where this one knows no field.
const (
	recordMark  = `"next_of_record":"written by the next version"`
	runtimeMark = `"next_of_runtime":{"seen":7}`
)

// nextVersion says another version, and writes fields into each record and each runtime that this one does not know.
func nextVersion() []edit {
	const (
		version = "internal/command/command.go"
		record  = "internal/agent/record/record.go"
		runtime = "internal/agent/record/runtime.go"
		store   = "internal/agent/specstore/specstore.go"
	)
	return []edit{
		{version, `"devel", ""`, `"devel", "-next"`},
		{version, `v != "" && v != "(devel)"`, `v == "nothing"`},
		{record, "type Record struct {\n", "type Record struct {\n\tNext string `json:\"next_of_record\"`\n"},
		{runtime, "type Runtime struct {\n", "type Runtime struct {\n\tNext map[string]int `json:\"next_of_runtime\"`\n"},
		{store, "\tdata, err := json.Marshal(v)\n", `	switch r := v.(type) {
	case record.Record:
		r.Next = "written by the next version"
		v = r
	case *record.Record:
		r.Next = "written by the next version"
	case record.Runtime:
		r.Next = map[string]int{"seen": 7}
		v = r
	}
	data, err := json.Marshal(v)
`},
	}
}

// newerFormat has another layout of its files.
func newerFormat() []edit {
	return []edit{{"internal/release/release.go", "const Format = 1\n", "const Format = 2\n"}}
}

// built are the edited agents, by their names: tests that want the same one share it.
var built sync.Map

// buildEdited returns the path of an agent that is built from the tree with edits, once for each name. A test must not
// write to it.
func buildEdited(t *testing.T, name string, edits []edit) string {
	t.Helper()
	once, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) { return build(name, edits) }))
	path, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func build(name string, edits []edit) (binary string, err error) {
	dir := filepath.Dir(binaries.agent) // it goes with the tests
	texts := map[string]string{}
	for _, e := range edits {
		path := filepath.Join(harness.Root(), e.file)
		if _, ok := texts[path]; !ok {
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			return "", fmt.Errorf("%s has the text %q %d times, want once", e.file, e.old, n)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range texts {
		copied := filepath.Join(dir, name+"-"+filepath.Base(path))
		overlay.Replace[path] = copied
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, name+".json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-overlay", list, "-o", binary, "./cmd/drover-agent")
	cmd.Dir = harness.Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", name, err, out)
	}
	return binary, nil
}
