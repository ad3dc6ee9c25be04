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

// TestQuotesOfVariables: double quotes are read as those of systemd's EnvironmentFile, single ones have no escapes.
func TestQuotesOfVariables(t *testing.T) {
	for value, want := range map[string]string{
		`"a\"b\$c\\d\` + "`" + `e"`: "a\"b$c\\d`e", `"a\nb\ c"`: `a\nb\ c`, `'a\"b\$'`: `a\"b\$`, `a\"b\\`: `a\"b\\`,
		`"a\\"`: `a\`, `"a\"`: `"a\"`, `"`: `"`, `""`: "", `'it's'`: "it's", ` "a b" `: "a b", `"a`: `"a`, `"a'`: `"a'`,
	} {
		got := map[string]string{}
		if err := parseVariables("A="+value, got); err != nil || got["A"] != want {
			t.Errorf("%s: %q, %v, want %q", value, got["A"], err, want)
		}
	}
}

// TestFaultsOfVariables: an error names the line and what is wrong with its name.
func TestFaultsOfVariables(t *testing.T) {
	for text, want := range map[string]string{
		"A=1\nDROVER_X=2": `line 2: "DROVER_X" is set by drover: expected a name that does not begin with DROVER_`,
		"A B=1":           "line 1 does not begin with the name of a variable",
		"=secret":         "line 1 does not begin with the name of a variable",
		"#\nsecret":       "line 2 is not NAME=value",
		"a\nB=1\n=x\nc":   "line 1 is not NAME=value, line 3 does not begin with the name of a variable, line 4 is not NAME=value",
		strings.Repeat("x\n", 7): "line 1 is not NAME=value, line 2 is not NAME=value, line 3 is not NAME=value, " +
			"line 4 is not NAME=value, line 5 is not NAME=value, and 2 more faulty lines",
	} {
		if err := parseVariables(text, map[string]string{}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
