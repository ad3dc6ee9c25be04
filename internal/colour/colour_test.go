package colour_test

import (
	"slices"
	"testing"

	"drover/internal/colour"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string][]colour.Part{
		"":                         {{}},
		"plain":                    {{Text: "plain"}},
		"\x1b[32mINFO\x1b[m up":    {{}, {SGR: "32", Set: true, Text: "INFO"}, {Set: true, Text: " up"}},
		"a\x1b[2Jb\x1b[1;1Hc":      {{Text: "abc"}},
		"a\x1b]0;title\x07b":       {{Text: "ab"}},
		"a\x1b]8;;http://x\x1b\\b": {{Text: "ab"}},
		"a\x1b(Bb\x1bcc\x1b7d":     {{Text: "abcd"}},
		"a\x1b[38;2;1;2;3mb":       {{Text: "a"}, {SGR: "38;2;1;2;3", Set: true, Text: "b"}},
		"a\x1b[?25mb\x1b[>4mc":     {{Text: "abc"}},
		"cut\x1b[3":                {{Text: "cut"}},
		"cut\x1b":                  {{Text: "cut"}},
		"a\x1b[3\nb":               {{Text: "a\nb"}},
		"\x1b\x1b[1mb":             {{}, {SGR: "1", Set: true, Text: "b"}},
	} {
		if got := colour.Split(text); !slices.Equal(got, want) {
			t.Errorf("%q: %+v, expected %+v", text, got, want)
		}
		plain := ""
		for _, p := range want {
			plain += p.Text
		}
		if got := colour.StripString(text); got != plain {
			t.Errorf("%q: %q, expected %q", text, got, plain)
		}
	}
}
