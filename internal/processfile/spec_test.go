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

// again converts a process to the stored form and back, through the JSON of both.
func again(t *testing.T, f v1.Spec) v1.Spec {
	t.Helper()
	stored := processfile.ToSpec(reread(t, f))
	return reread(t, processfile.FromSpec(new(reread(t, stored))))
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

// TestFileToSpecAndBack: every field of a file survives storage, and storage keeps no field that the file has not.
func TestFileToSpecAndBack(t *testing.T) {
	for seed := range uint64(1000) {
		f := randomProcess(seed)
		valid(t, f)
		canonical := again(t, f)
		valid(t, canonical)
		if d := cmp.Diff(canonical, again(t, canonical)); d != "" {
			t.Fatalf("seed %d: not stable:\n%s", seed, d)
		}
		a, b := processfile.ToSpec(f), processfile.ToSpec(canonical)
		if !a.Same(&b) {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			t.Fatalf("seed %d: stored differently:\n%s\n%s", seed, x, y)
		}
	}
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
		if s.Validate(process.Update) != nil && s.Validate(process.Start) != nil {
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
				if s.Validate(process.Start) == nil {
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

func roundTrip(t *testing.T, s *process.Spec) {
	t.Helper()
	f := processfile.FromSpec(s)
	valid(t, f)
	back := processfile.ToSpec(reread(t, f))
	if d := cmp.Diff(new(reread(t, *s)), new(reread(t, back))); d != "" {
		t.Errorf("%s", d)
	}
	f.Hosts.Names = []string{"*"}
	docs := []processfile.Document{{Namespace: "a", Processes: []processfile.Named{{Name: "b", Spec: f}}}}
	text, err := processfile.Write(docs)
	if err != nil {
		t.Fatal(err)
	}
	read, err := processfile.Read("", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	back = processfile.ToSpec(read[0].Processes[0].Spec)
	if !s.Same(&back) {
		x, _ := json.Marshal(s)
		y, _ := json.Marshal(back)
		t.Errorf("through YAML:\n%s\n%s\n%s", x, y, text)
	}
}
