package host

import (
	"maps"
	"strings"
	"testing"
)

// TestByteOrderMark: a mark at the begin of a file is no part of the first name.
func TestByteOrderMark(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"\ufeffA=1\nB=2\n":    {"A": "1", "B": "2"},
		"\ufeff# note\nA=1\n": {"A": "1"},
	} {
		got := map[string]string{}
		if err := parseVariables(text, got); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// TestValuesOfVariables: they are read as those of systemd's EnvironmentFile.
func TestValuesOfVariables(t *testing.T) {
	for value, want := range map[string]string{
		`"a\"b\$c\\d\` + "`" + `e"`: "a\"b$c\\d`e", `"a\nb\ c"`: `a\nb\ c`, `'a\"b\$'`: `a\"b\$`, `a\"b\\`: `a"b\`,
		`"a\\"`: `a\`, `""`: "", `'it's'`: "its'", `it's`: "it's", ` "a b" `: "a b", `a b  `: "a b", `a\ `: "a ",
		`"a"b`: "ab", `"a" 'b'`: "ab", "-Xmx1g \\\n  -Dmode=prod": "-Xmx1g   -Dmode=prod", "\"a\nb\"": "a\nb",
		"\"a\\\nb\"": "ab", "a\r\n": "a", "": "", "a # b": "a # b", "a;b": "a;b", "\\": "",
	} {
		got := map[string]string{}
		if err := parseVariables("A="+value, got); err != nil || got["A"] != want || len(got) != 1 {
			t.Errorf("%s: %q, %v, want %q", value, got, err, want)
		}
	}
}

// TestLinesOfVariables: comments do not count, and each assignment ends where its value does.
func TestLinesOfVariables(t *testing.T) {
	text := "; one\n# two \\\nA = 1\n\n  B=\"x\ny\" # no comment\nJAVA_OPTS=-Xmx1g \\\n  -Dmode=prod\nC=3"
	want := map[string]string{"A": "1", "B": "x\ny# no comment", "JAVA_OPTS": "-Xmx1g   -Dmode=prod", "C": "3"}
	got := map[string]string{}
	if err := parseVariables(text, got); err != nil || !maps.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestFaultsOfVariables: an error names the line and what is wrong with its name.
func TestFaultsOfVariables(t *testing.T) {
	for text, want := range map[string]string{
		"A=1\nDROVER_X=2": `line 2: "DROVER_X" is set by drover: expected a name that does not begin with DROVER_`,
		"A B=1":           "line 1 does not begin with the name of a variable",
		"=secret":         "line 1 does not begin with the name of a variable",
		"#\nsecret":       "line 2 is not NAME=value",
		"export A=1":      "line 1 begins with export: expected NAME=value",
		"A=1\nB=\"x\nC=2": "line 2 begins a quote that never ends",
		"A=\"x\ny\"\nz":   "line 3 is not NAME=value",
		"a\nB=1\n=x\nc":   "line 1 is not NAME=value, line 3 does not begin with the name of a variable, line 4 is not NAME=value",
		strings.Repeat("x\n", 7): "line 1 is not NAME=value, line 2 is not NAME=value, line 3 is not NAME=value, " +
			"line 4 is not NAME=value, line 5 is not NAME=value, and 2 more faulty lines",
	} {
		if err := parseVariables(text, map[string]string{}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
