package processfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/processfile"
)

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
