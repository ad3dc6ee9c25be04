package eventlog

import (
	"encoding/json"
	"slices"
	"strings"

	"drover/internal/clip"

	"drover/internal/process"
)

// Bounds of the texts and lists of an event; texts in bytes.
const (
	maxOutput   = 4 << 10
	maxText     = 1 << 10
	maxEvidence = 16
	maxSamples  = 100
	// longestLine is the longest line that is written and read.
	longestLine = 256 << 10
)

// encode returns the line that an event is written as. It bounds the event.
func encode(e process.Event) []byte {
	e = bounded(e)
	for {
		line, err := json.Marshal(e)
		switch {
		case err == nil && len(line) < longestLine:
			return append(line, '\n')
		case err == nil && e.Breach != nil && len(e.Breach.Scores) > 0: // the highest stay
			b := *e.Breach
			b.Scores = b.Scores[:len(b.Scores)/2]
			e.Breach = &b
		default: // a sample that is no number, or names that nobody has admitted
			e = process.Event{
				Stream: e.Stream, Seq: e.Seq, At: e.At, Process: e.Process, Kind: e.Kind, Actor: e.Actor,
				PID: e.PID, Attempt: e.Attempt,
			}
			line, _ = json.Marshal(e) // nothing is left that could fail
			return append(line, '\n')
		}
	}
}

// bounded returns an event whose texts are short enough and valid UTF-8. It shares no memory with the caller's that
// would be changed.
func bounded(e process.Event) process.Event {
	e.Output = tail(e.Output, maxOutput)
	e.Cause.Text = head(e.Cause.Text, maxText)
	evidence := e.Cause.Evidence
	e.Cause.Evidence = slices.Clone(evidence[:min(len(evidence), maxEvidence)])
	for i, text := range e.Cause.Evidence {
		e.Cause.Evidence[i] = head(text, maxText)
	}
	if e.Breach != nil {
		b := *e.Breach
		b.Samples = b.Samples[max(0, len(b.Samples)-maxSamples):]
		e.Breach = &b
	}
	return e
}

// tail returns the end of a text as valid UTF-8.
func tail(s string, most int) string {
	return clip.Tail(strings.ToValidUTF8(s[max(0, len(s)-2*most):], "�"), most)
}

// head returns the beginning of a text as valid UTF-8.
func head(s string, most int) string {
	return clip.Head(strings.ToValidUTF8(s[:min(len(s), 2*most)], "�"), most)
}
