package frame

import "strings"

// hintMark is the first byte of a hint, in the place of a version.
const hintMark = 0

// maxHint is the longest text of a hint, in bytes.
const maxHint = 300

// HintError is the text of a peer that could not answer with a frame, for example because it does not know the keys of
// the sender. Nobody proves it. The text is for people; a member that gets it tries its other keys (Keys.Answered).
type HintError struct{ Text string }

// Error says that nobody has proven the text.
func (e *HintError) Error() string { return "unproven answer: " + e.Text }

// Hint returns a text in the place of an answer.
func Hint(text string) []byte { return append([]byte{hintMark}, text[:min(len(text), maxHint)]...) }

// hintOf returns the printable part of a hint.
func hintOf(data []byte) error {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, string(data[1:min(len(data), 1+maxHint)]))
	return &HintError{Text: text}
}
