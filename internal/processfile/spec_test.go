package processfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/process"
	"drover/internal/processfile"
)

// again makes a process canonical, through its JSON before and after.
func again(t *testing.T, f v1.Spec) v1.Spec {
	t.Helper()
	return reread(t, processfile.Canonical(reread(t, f)))
}

// text is the JSON of a value.
func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// reread returns what is read of the JSON of a value.
func reread[T any](t *testing.T, v T) (out T) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// valid fails the test if a process has faults.
func valid(t *testing.T, f v1.Spec) {
	t.Helper()
	if faults := processfile.CheckSpec(f); len(faults) > 0 {
		text, _ := json.Marshal(f)
		t.Fatalf("%v\n%s", faults, text)
	}
}

// TestFileToSpecAndBack: a stored process is a process of a file, which says the same: through JSON and through YAML.
func TestFileToSpecAndBack(t *testing.T) {
	for seed := range uint64(1000) {
		f := randomProcess(seed)
		valid(t, f)
		before := text(t, f)
		stored := processfile.Canonical(f)
		if after := text(t, f); after != before {
			t.Fatalf("seed %d: Canonical changes its argument from\n%s\nto\n%s", seed, before, after)
		}
		canonical := again(t, f)
		valid(t, canonical)
		if d := cmp.Diff(canonical, again(t, canonical)); d != "" {
			t.Fatalf("seed %d: not stable:\n%s", seed, d)
		}
		if x, y := text(t, stored), text(t, processfile.Canonical(stored)); x != y {
			t.Fatalf("seed %d: stored first as\n%s\nthen as\n%s", seed, x, y)
		}
		if x, y := text(t, stored), text(t, processfile.Canonical(canonical)); x != y {
			t.Fatalf("seed %d: stored differently:\n%s\n%s", seed, x, y)
		}
		if back := throughYAML(t, stored); !stored.Same(&back) {
			t.Fatalf("seed %d: through YAML:\n%s\n%s", seed, text(t, stored), text(t, back))
		}
		if d := cmp.Diff(meanings(&f), meanings(&stored)); d != "" {
			t.Fatalf("seed %d: the stored process means something else:\n%s\n%s", seed, d, before)
		}
	}
}

// throughYAML returns what is stored of the YAML of a process.
func throughYAML(t *testing.T, f v1.Spec) v1.Spec {
	t.Helper()
	f.Hosts.Names = []string{"*"}
	docs := []processfile.Document{{Namespace: "a", Processes: []processfile.Named{{Name: "self", Spec: f}}}}
	written, err := processfile.Write(docs)
	if err != nil {
		t.Fatal(err)
	}
	read, err := processfile.Read("", written)
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	return processfile.Canonical(read[0].Processes[0].Spec)
}

// TestCanonicalFileStaysAsItIs: a file without defaults comes back as it is.
func TestCanonicalFileStaysAsItIs(t *testing.T) {
	docs, err := processfile.Read("shop.yaml", file(t, "canonical.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range docs[0].Processes {
		want := p.Spec
		want.Hosts = v1.Hosts{}
		if d := cmp.Diff(want, again(t, want)); d != "" {
			t.Errorf("%s: %s", p.Name, d)
		}
	}
}

// TestWireToFileAndBack: a spec of the GSE and JOB APIs comes out of the form of files as it went in.
func TestWireToFileAndBack(t *testing.T) {
	n := 0
	for seed := range uint64(1000) {
		s := randomWireSpec(t, seed)
		if process.Validate(s, process.Update) != nil && process.Validate(s, process.Start) != nil {
			continue
		}
		n++
		roundTrip(t, s)
	}
	if n < 500 {
		t.Errorf("only %d of the specs were valid", n)
	}
}

// TestExamplesToFileAndBack does the same with the documented examples.
func TestExamplesToFileAndBack(t *testing.T) {
	n := 0
	for _, pattern := range []string{"operate_proc*", "register_proc_info", "update_proc_info", "manage_proc", "operate_process"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "api", "examples", pattern, "*.request.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range specsOf(text) {
				if process.Validate(s, process.Start) == nil {
					n++
					roundTrip(t, s)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("found %d specs", n)
	}
}

// roundTrip checks that a spec of the GSE and JOB APIs is canonical, is right in a file, and comes out of a file as it
// is, byte for byte.
func roundTrip(t *testing.T, s *process.Spec) {
	t.Helper()
	valid(t, *s)
	want, labels := text(t, s), string(s.LabelsJSON())
	for name, back := range map[string]v1.Spec{
		"itself": processfile.Canonical(*s), "JSON": again(t, *s), "YAML": throughYAML(t, *s),
	} {
		if got := text(t, back); got != want {
			t.Errorf("through %s:\n%s\nwas\n%s", name, got, want)
		}
		if got := string(back.LabelsJSON()); got != labels {
			t.Errorf("through %s: the labels are %s, were %s", name, got, labels)
		}
	}
}
