package files

import (
	"strings"
	"testing"

	"drover/internal/words"
	"drover/internal/words/help"
)

// exampleInHelp is the spec that the help of 'drover register' shows.
func exampleInHelp(t *testing.T, l words.Lang) string {
	t.Helper()
	long, _ := help.In(l).Of("drover register", help.Long)
	for paragraph := range strings.SplitSeq(long, "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			return paragraph
		}
	}
	t.Fatalf("no paragraph is indented:\n%s", long)
	return ""
}

// TestSpecFaults: all of them, with their lines and the names that were meant.
func TestSpecFaults(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"nothing wrong", exampleInHelp(t, words.English), ""},
		{"nothing wrong in Chinese", exampleInHelp(t, words.Chinese), ""},
		{
			"several", "run: x\ndirectry: /\nnice: 99\nhosts: [a]\n",
			"-:2: directry: unknown field, did you mean directory?\n  -:3: nice: is 99: expected -20 to 19\n  ",
		},
		{"JSON", `{"runn": "x"}`, "-:1: runn: unknown field, did you mean run?"},
		{"a text", "nginx", `-:1: is "nginx": expected names with values`},
		{"two", "run: x\n---\nrun: y\n", "-:1: has 2 documents: expected one, with the fields of a process"},
	} {
		_, err := readSpec(strings.NewReader(tt.yaml), "-")
		got := ""
		if err != nil {
			got = strings.TrimPrefix(err.Error(), "- is not a valid spec:\n  ")
		}
		if got != tt.want && (tt.want == "" || !strings.Contains(got, strings.TrimSpace(tt.want))) {
			t.Errorf("%s: got\n  %s\nwant\n  %s", tt.name, got, tt.want)
		}
	}
}
