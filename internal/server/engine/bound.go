package engine

import (
	"fmt"
	"strings"

	"drover/internal/process"
)

// maxText is how much of a text of an agent's is kept, in bytes: the two ends of it. Agents cut what commands have written to less than
// half of that; this is for one that does not.
const maxText = 128 << 10

// shortened returns an outcome whose texts are not too long.
func shortened(o process.Outcome) process.Outcome {
	o.Text = ends(o.Text)
	if o.Status != nil {
		status := shortenedStatus(*o.Status)
		o.Status = &status
	}
	return o
}

// shortenedStatus returns a status whose texts are not too long.
func shortenedStatus(s process.Status) process.Status {
	s.Message, s.Instance.Cmdline = ends(s.Message), ends(s.Instance.Cmdline)
	return s
}

// ends leaves out the middle of a text that is too long.
func ends(text string) string {
	if len(text) <= maxText {
		return text
	}
	const half = maxText / 2
	return strings.ToValidUTF8(text[:half], "") + fmt.Sprintf("\n… %d bytes were left out by the server …\n", len(text)-2*half) +
		strings.ToValidUTF8(text[len(text)-half:], "")
}
