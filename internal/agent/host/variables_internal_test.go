package host

import (
	"maps"
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
