package wildcard_test

import (
	"regexp"
	"strings"
	"testing"

	"drover/internal/wildcard"
)

func TestMatch(t *testing.T) {
	texts := []string{"", "a", "b", "ab", "ba", "aba", "abab", "aab", "你", "a你", "你a", "a.b", "a*b"}
	patterns := []string{
		"", "*", "**", "a", "?", "??", "a*", "*a", "a*b", "*a*b*", "a?", "?a", "*?", "?*?", "*b?", "你",
		"?你", "a.b", "a[b]",
	}
	for _, p := range patterns {
		like := regexp.QuoteMeta(p)
		like = strings.ReplaceAll(strings.ReplaceAll(like, `\*`, ".*"), `\?`, ".")
		want := regexp.MustCompile("^(?s:" + like + ")$")
		for _, text := range texts {
			if got := wildcard.Match(p, text); got != want.MatchString(text) {
				t.Errorf("%q matches %q: %v", p, text, got)
			}
		}
	}
	// Patterns that make a backtracking matcher take for ever.
	if wildcard.Match(strings.Repeat("a*", 120)+"b", strings.Repeat("a", 5000)) {
		t.Error("a text without a b matches a pattern that ends in one")
	}
}
