package process_test

import (
	"slices"
	"testing"
	"time"

	"drover/internal/process"
)

func TestWords(t *testing.T) {
	for _, c := range []struct {
		line  string
		words []string
		exact bool
	}{
		{"./api --port 1", []string{"./api", "--port", "1"}, true},
		{"./api --a \\\n --b", []string{"./api"}, false}, // a shell joins the lines
		{"./api \"a \\\n b\"", []string{"./api"}, false},
		{`exec ./api 'a b' "c \" d" e\ f ''`, []string{"./api", "a b", `c " d`, "e f", ""}, true},
		{`"x\y" a\b`, []string{`x\y`, "ab"}, true},
		{`set -f; exec ./api $A`, []string{"./api"}, false},
		{`'/opt/my' "$A"`, []string{"/opt/my"}, false},
		{`$A b`, []string{""}, false},
		{`cd /; ./api`, []string{""}, false},
		{`A=1 ./api`, []string{""}, false},
		{"", []string{""}, false},
	} {
		words, exact := process.Words(c.line)
		if !slices.Equal(words, c.words) || exact != c.exact {
			t.Errorf("%q: %q %v, want %q %v", c.line, words, exact, c.words, c.exact)
		}
	}
}

func TestOrList(t *testing.T) {
	for want, words := range map[string][]string{
		"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"},
	} {
		if got := process.OrList(words); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRound(t *testing.T) {
	for given, want := range map[string]string{
		"0s": "0s", "43.4ms": "43ms", "999.9ms": "1s", "1.26s": "1.3s", "9.96s": "10s", "10.4s": "10s", "1h0m1.5s": "1h0m2s",
	} {
		d, err := time.ParseDuration(given)
		if got := process.Round(d).String(); err != nil || got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
