package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"drover/internal/process"
)

// The bounds of questions about running processes and their answers.
const (
	// MaxLive is the largest number of processes of a question, and MaxLiveFields that of the fields of one process.
	MaxLive       = 200
	MaxLiveFields = 64
	// maxLiveText is the longest text of a field in bytes; a longer one is cut.
	maxLiveText = 300
	maxLive     = 1 << 20
)

// LiveQuestion asks in which fields running processes differ from their specs.
type LiveQuestion struct {
	Processes []process.ID `json:"processes"`
}

// LiveAnswer has the processes that run, in the order of the question.
type LiveAnswer struct {
	Processes []LiveProcess `json:"processes,omitempty"`
	// Error says, in a caller's words, why there is no answer.
	Error string `json:"error,omitempty"`
}

// LiveProcess is a running process.
type LiveProcess struct {
	Process process.ID          `json:"process"`
	PID     int                 `json:"pid"`
	Fields  []process.LiveField `json:"fields,omitempty"`
	// Compared says that Config has the configuration files that differ now.
	Compared bool            `json:"compared,omitempty"`
	Config   []process.Drift `json:"config,omitempty"`
}

// ReadLiveAnswer decodes the answer of an agent to a question. It rejects an answer beyond the bounds, and processes
// that the question does not name. It cuts long texts.
func ReadLiveAnswer(data []byte, q LiveQuestion) (LiveAnswer, error) {
	if len(data) > maxLive {
		return LiveAnswer{}, fmt.Errorf("cannot read answer: %d bytes, expected at most %d", len(data), maxLive)
	}
	if weight := Weight(data); weight > MaxWeight {
		return LiveAnswer{}, fmt.Errorf("cannot read answer: it would take %d bytes of memory, expected at most %d", weight,
			MaxWeight)
	}
	var a LiveAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return LiveAnswer{}, fmt.Errorf("cannot read answer: %w", err)
	}
	asked := map[process.ID]bool{}
	for _, id := range q.Processes {
		asked[id] = true
	}
	for i := range a.Processes {
		p := &a.Processes[i]
		if !asked[p.Process] {
			return LiveAnswer{}, fmt.Errorf("cannot read answer: nobody has asked for its process %d, or it is there twice", i)
		}
		delete(asked, p.Process)
		if n := max(len(p.Fields), len(p.Config)); n > MaxLiveFields {
			return LiveAnswer{}, fmt.Errorf("cannot read answer: its process %d has %d fields, expected at most %d", i,
				n, MaxLiveFields)
		}
		for j := range p.Config {
			f := &p.Config[j]
			f.Path, f.Want = LiveText(f.Path), LiveText(f.Want)
			f.Have, f.Problem = LiveText(f.Have), LiveText(f.Problem)
		}
		for j := range p.Fields {
			f := &p.Fields[j]
			f.Path, f.Want = LiveText(f.Path), LiveText(f.Want)
			f.Have, f.Problem = LiveText(f.Have), LiveText(f.Problem)
		}
	}
	a.Error = LiveText(a.Error)
	return a, nil
}

// LiveText makes a text fit for a LiveAnswer: short, without control characters.
func LiveText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), maxLiveText)], "?"))
}
