package processfile_test

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "drover/api/v1"
	"drover/internal/processfile"
)

// TestClassesOfFields: a change of one field changes the StartDigest of the spec if the field takes effect at the next
// start, and only then.
func TestClassesOfFields(t *testing.T) {
	changed := map[string]bool{}
	for seed := range uint64(40) {
		f, other := randomProcess(2*seed), randomProcess(2*seed+1)
		was := processfile.Canonical(f)
		for _, field := range processfile.Fields() {
			next, ok := replaced(t, f, other, field.Path)
			if !ok || len(processfile.CheckSpec(next)) > 0 {
				continue
			}
			is := processfile.Canonical(next)
			if was.Same(&is) {
				continue
			}
			restarts := was.StartDigest() != is.StartDigest()
			mixed := field.Path == "limits" || field.Path == "log"
			if want := field.Class == processfile.AtRestart; restarts != want && !mixed {
				t.Errorf("seed %d: %s: the digest changes: %v, want %v", seed, field.Path, restarts, want)
			}
			changed[field.Path] = true
		}
	}
	for _, field := range processfile.Fields() {
		if field.Class == processfile.AtRestart && !changed[field.Path] && field.Path != "process_name" {
			t.Errorf("no change of %s", field.Path)
		}
	}
}

// replaced returns a process with one field of another one; ok is false if neither has the field.
func replaced(t *testing.T, f, other v1.Spec, path string) (next v1.Spec, ok bool) {
	t.Helper()
	all, others := tree(t, f), tree(t, other)
	names := strings.Split(path, ".")
	to, from := all, others
	for _, name := range names[:len(names)-1] {
		to, _ = to[name].(map[string]any)
		from, _ = from[name].(map[string]any)
	}
	name := names[len(names)-1]
	value, has := from[name]
	switch {
	case to == nil:
		return v1.Spec{}, false
	case has:
		to[name] = value
	default:
		delete(to, name)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return next, json.Unmarshal(text, &next) == nil
}

func tree(t *testing.T, f v1.Spec) map[string]any {
	t.Helper()
	return reread[any](t, f).(map[string]any)
}
