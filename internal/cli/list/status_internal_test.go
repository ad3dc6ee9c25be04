package list

import (
	"testing"

	"drover/client"
)

// TestVersionText: a version command that does not answer says why.
func TestVersionText(t *testing.T) {
	failed := &client.Answer{Text: "timed out after 10s"}
	for _, c := range []struct {
		known  string
		answer *client.Answer
		want   string
	}{
		{"1.2", &client.Answer{OK: true, Text: "1.2"}, "1.2"},
		{"1.1", failed, "1.1"},
		{"", failed, "not known: timed out after 10s"},
		{"", nil, ""},
	} {
		p := client.Process{Instance: &client.Instance{Version: c.known}}
		p.Version = c.answer
		if got := versionText(p); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
