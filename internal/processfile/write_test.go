package processfile_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/processfile"
)

// TestFilesInJSON: files of several namespaces in one list, and more forms of a process, are read as they were printed.
func TestFilesInJSON(t *testing.T) {
	form := func(run string, hosts ...string) v1.Spec { return v1.Spec{Run: run, Hosts: v1.Hosts{Names: hosts}} }
	files := []v1.File{
		{
			Namespace: "b", Revision: 7, Processes: map[string]v1.Spec{"x": form("x", "h1"), "y": form("y", "h1")},
			More: []map[string]v1.Spec{{"x": form("x 2", "h2")}, {"x": form("x 3", "h3")}},
		},
		{Namespace: "c", Processes: map[string]v1.Spec{"z": form("z", "h1")}},
	}
	text, err := json.MarshalIndent(files, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := processfile.Read("two.json", text)
	if err != nil {
		t.Fatal(err)
	}
	got := processfile.Files(docs)
	got[0].Revision = docs[0].Revision
	if d := cmp.Diff(files, got); d != "" {
		t.Error(d)
	}
	const wrong = `[{"namespace": "a", "defaults": {"hosts": ["h"]},
  "processes": {"x": {"run": "x", "nice": 20}},
  "more": [{"x": {"run": "y", "nice": 30}}], "les": 1},
 [], {"namespace": "b"}]`
	_, err = processfile.Read("f", []byte(wrong))
	want := "f:2: processes.x.nice: is 20: expected -20 to 19\n" +
		"f:3: les: unknown field: drover explain lists the fields\n" +
		"f:3: processes.x.nice: is 30: expected -20 to 19\n" +
		"f:4: the document is a list: expected namespace, defaults and processes\n" +
		"f:4: processes: is missing: expected names with processes"
	if err == nil || err.Error() != want {
		t.Errorf("the faults are\n%v\nwant\n%s", err, want)
	}
}

// TestTextsAreWrittenAsTheyAre: whatever YAML could take for something else is in quotes.
func TestTextsAreWrittenAsTheyAre(t *testing.T) {
	texts := []string{
		"", " x ", "1", "true", "null", "~", "0x1f", "- a", "2024-01-01", "é\u202e", "a\tb", "'", `"`, "1e3", "#x", "a: b",
		"{}", "yes", "\x01", "a\nb\n", "\n", "a\n\nb\n", "a\n\n", " a\nb\n", "a \nb\n", "*", "&a", "!x", "%x", "@x", "`x", "a #b",
		"set -e\nexec ./x \"a: b\" # c\n", "a,b", "[x", "x]", "--- a", "... a", "=", "<<", "\u2028", "\ufeff", "😀", ".5", "+1",
	}
	p := v1.Spec{Hosts: v1.Hosts{Names: texts}, Run: "x", Environment: v1.Variables{}, Labels: map[string]string{}}
	for i, text := range texts {
		p.Labels[text] = text
		p.Environment["V"+string(rune('A'+i%26))+string(rune('A'+i/26))] = text
	}
	docs := []processfile.Document{{Namespace: "1", Processes: []processfile.Named{{Name: "on", Spec: p}}}}
	written, err := processfile.Write(docs)
	if err != nil {
		t.Fatal(err)
	}
	again, err := processfile.Read("", written)
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	if d := cmp.Diff(docs, again, same()); d != "" {
		t.Errorf("%s\n%s", d, written)
	}
}
