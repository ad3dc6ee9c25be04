package events

import (
	"testing"

	"drover/internal/process"
)

// TestKindsOnALine: all kinds of ours are told as they are, and nothing ends the line that they stand on.
func TestKindsOnALine(t *testing.T) {
	for _, kind := range process.EventKinds() {
		if got := lineOf(string(kind)); got != string(kind) {
			t.Errorf("%s is told as %s", kind, got)
		}
	}
	for _, kind := range []string{
		"", "exited\ndata: {}\n\nid: 3\nevent: given-up", "exited\r", "exited: ", "Exited",
		"ex\x00ited", "é",
	} {
		if got := lineOf(kind); got != "other" {
			t.Errorf("%q is told as %q", kind, got)
		}
	}
}
