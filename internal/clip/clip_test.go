package clip_test

import (
	"testing"

	"drover/internal/clip"
)

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		text               string
		most               int
		head, tail, marked string
	}{
		{"", 0, "", "", ""},
		{"abc", 3, "abc", "abc", "abc"},
		{"abcd", 3, "abc", "bcd", "abc…"},
		{"aéb", 2, "a", "b", "a…"},
		{"aéb", 3, "aé", "éb", "aé…"},
		{"日本", 2, "", "", "…"},
		{"a\xffbc", 4, "a\xffbc", "a\xffbc", "a\xffbc"},
		{"a\xffbc", 3, "ab", "bc", "ab…"},
		{"abc", 0, "", "", "…"},
	} {
		if got := clip.Head(tt.text, tt.most); got != tt.head {
			t.Errorf("Head(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.head)
		}
		if got := clip.Tail(tt.text, tt.most); got != tt.tail {
			t.Errorf("Tail(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.tail)
		}
		if got := clip.Marked(tt.text, tt.most, "…"); got != tt.marked {
			t.Errorf("Marked(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.marked)
		}
	}
}
