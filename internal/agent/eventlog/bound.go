package eventlog

import (
	"encoding/json"
	"slices"
	"strings"

	"drover/internal/clip"

	"drover/internal/process"
)

// The bounds of the texts and lists of an event; texts in bytes.
const (
	maxOutput   = 4 << 10
	maxText     = 1 << 10
	maxVersion  = 255
	maxEvidence = 16
	maxSamples  = 100
	// longestLine is the longest line in a segment, in bytes.
	longestLine = 256 << 10
)

// encode bounds an event and returns it as a line.
func encode(e process.Event) []byte {
	e = bounded(e)
	for {
		line, err := json.Marshal(e)
		switch {
		case err == nil && len(line) < longestLine:
			return append(line, '\n')
		case err == nil && e.Breach != nil && len(e.Breach.Scores) > 0: // keep the highest scores
			b := *e.Breach
			b.Scores = b.Scores[:len(b.Scores)/2]
			e.Breach = &b
		default: // a sample that is not a number, or very long names
			e = process.Event{
				Stream: e.Stream, Seq: e.Seq, At: e.At, Process: e.Process, Kind: e.Kind, Actor: e.Actor,
				PID: e.PID, Attempt: e.Attempt, Shown: e.Shown,
			}
			line, _ = json.Marshal(e) // there is nothing left that could fail
			return append(line, '\n')
		}
	}
}

// bounded returns a copy of the event with short texts in valid UTF-8. It does not change the caller's memory.
func bounded(e process.Event) process.Event {
	e.Output = tail(e.Output, maxOutput)
	e.Cause.Text = head(e.Cause.Text, maxText)
	evidence := e.Cause.Evidence
	e.Cause.Evidence = slices.Clone(evidence[:min(len(evidence), maxEvidence)])
	for i, text := range e.Cause.Evidence {
		e.Cause.Evidence[i] = head(text, maxText)
	}
	if e.Shown != nil {
		s := *e.Shown
		s.Text, s.Version = head(s.Text, maxText), head(s.Version, maxVersion)
		e.Shown = &s
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
