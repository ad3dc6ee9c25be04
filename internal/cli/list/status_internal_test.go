package list

import (
	"testing"

	v1 "drover/api/v1"
)

// TestVersionText: a version command that does not answer says why.
func TestVersionText(t *testing.T) {
	failed := &v1.Answer{Text: "timed out after 10s"}
	for _, c := range []struct {
		known  string
		answer *v1.Answer
		want   string
	}{
		{"1.2", &v1.Answer{OK: true, Text: "1.2"}, "1.2"},
		{"1.1", failed, "1.1"},
		{"", failed, "not known: timed out after 10s"},
		{"", nil, ""},
	} {
		p := v1.Process{Instance: &v1.Instance{Version: c.known}}
		p.Version = c.answer
		if got := versionText(p); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
