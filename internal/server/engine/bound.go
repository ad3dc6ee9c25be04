package engine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"drover/internal/clip"

	"drover/internal/process"
	"drover/internal/server/store"
	"drover/internal/wire"
)

// The limits on reports of agents; texts in bytes. Agents cut most texts to half or less; these limits are for an agent
// that does not. The engine keeps both ends of a long text, and the first entries of a long list.
const (
	// maxText is for the text of an outcome, which holds the output of a command, and for a message and a command line.
	maxText = 128 << 10
	// maxSaid is for every other text that may be long: output, evidence, answers of probes.
	maxSaid = 8 << 10
	// maxWord is for a single word or name.
	maxWord = 255
	// maxPath is for a path.
	maxPath = process.MaxPath
	// maxList is for lists in a status or an event, maxFiles for configuration files.
	maxList  = 16
	maxFiles = 256
	// maxSamples is for the samples and the scores of a breach.
	maxSamples = 100
	// maxFields is for the changed fields of an event.
	maxFields = 20
	// maxStatus is how many bytes the texts of a status may take together. The engine shortens the message, command
	// line and lists of a longer status, and drops its evidence.
	maxStatus = 2*maxText + 4*maxSaid
	// maxEvent is the largest stored event, in bytes. The engine shortens the texts of a longer event and drops its
	// evidence.
	maxEvent = 16 << 10
)

// shortHello returns an introduction with shortened texts, as far as the server keeps them.
func shortHello(h wire.Hello) wire.Hello {
	h.IP, h.ID, h.Build, h.Name = shortWord(h.IP), shortWord(h.ID), shortWord(h.Build), shortWord(h.Name)
	h.Policy, h.Wanted, h.Upgrade = ends(h.Policy, maxSaid), shortWord(h.Wanted), ends(h.Upgrade, maxSaid)
	return h
}

// shortened returns an outcome with shortened texts.
func shortened(o process.Outcome) process.Outcome {
	o.Text, o.Cause = ends(o.Text, maxText), shortWord(o.Cause)
	if o.Status != nil {
		status := shortenedStatus(*o.Status)
		o.Status = &status
	}
	return o
}

// shortenedStatus returns a status with shortened texts and lists. It does not change memory of the given status.
func shortenedStatus(s process.Status) process.Status {
	s.Message, s.Instance.Cmdline = ends(s.Message, maxText), ends(s.Instance.Cmdline, maxText)
	s.Want, s.State, s.ProcName, s.Instance.Stat = shortWord(s.Want), shortWord(s.State), shortWord(s.ProcName),
		shortWord(s.Instance.Stat)
	s.Instance.Version, s.Instance.Health = ends(s.Instance.Version, maxSaid), ends(s.Instance.Health, maxSaid)
	s.Health, s.Version = shortAnswer(s.Health), shortAnswer(s.Version)
	s.Cause = shortCause(s.Cause)
	s.Instance.Revision = max(s.Instance.Revision, 0)
	s.Further = slices.Clone(s.Further[:min(len(s.Further), maxList)])
	for i := range s.Further {
		s.Further[i] = shortCause(s.Further[i])
	}
	s.Runs = slices.Clone(s.Runs[:min(len(s.Runs), maxList)])
	for i := range s.Runs {
		s.Runs[i].Output = ends(s.Runs[i].Output, maxSaid)
	}
	s.Config = slices.Clone(s.Config[:min(len(s.Config), maxFiles)])
	for i := range s.Config {
		d := &s.Config[i]
		d.Path, d.Want, d.Have, d.Problem = ends(d.Path, maxPath), shortWord(d.Want), shortWord(d.Have),
			shortWord(d.Problem)
	}
	if sizeOf(&s) > maxStatus {
		s.Message, s.Instance.Cmdline = ends(s.Message, maxSaid), ends(s.Instance.Cmdline, maxSaid)
		s.Cause.Evidence, s.Further, s.Config = nil, nil, s.Config[:min(len(s.Config), maxList)]
	}
	return s
}

// sizeOf returns the approximate size of the texts of a status, in bytes.
func sizeOf(s *process.Status) int {
	size := len(s.Message) + len(s.Instance.Cmdline)
	for _, cause := range append([]process.Cause{s.Cause}, s.Further...) {
		size += len(cause.Text)
		for _, text := range cause.Evidence {
			size += len(text)
		}
	}
	for i := range s.Runs {
		size += len(s.Runs[i].Output)
	}
	for i := range s.Config {
		size += len(s.Config[i].Path)
	}
	return size
}

func shortAnswer(a *process.Answer) *process.Answer {
	if a == nil {
		return nil
	}
	short := *a
	short.Text = ends(short.Text, maxSaid)
	return &short
}

func shortCause(c process.Cause) process.Cause {
	c.ID, c.Text = shortWord(c.ID), ends(c.Text, maxSaid)
	c.Evidence = slices.Clone(c.Evidence[:min(len(c.Evidence), maxList)])
	for i, text := range c.Evidence {
		c.Evidence[i] = ends(text, maxSaid)
	}
	return c
}

// shortEvent returns an event in the form to store. It returns false if the event is invalid: the stream, the number,
// the kind or the process is missing, unknown or too long. Readers of streams and pages trust these words as the
// server's own.
func shortEvent(e process.Event) (process.Event, bool) {
	if e.Stream == "" || len(e.Stream) > maxStream || e.Seq == 0 || e.Seq > maxSeq ||
		e.Kind != process.EventState && !slices.Contains(process.EventKinds(), e.Kind) {
		return e, false
	}
	if e.Kind == process.EventState {
		return shortState(e)
	}
	e.Shown = nil
	if len(e.Process.Namespace) > process.MaxName || len(e.Process.Name) > process.MaxName {
		return e, false
	}
	states := process.States()
	if !slices.Contains(states, e.From) {
		e.From = ""
	}
	if !slices.Contains(states, e.To) {
		e.To = ""
	}
	e.Cause, e.Output = shortCause(e.Cause), ends(e.Output, maxSaid)
	for _, word := range []*string{
		&e.Actor.Kind, &e.Actor.App, &e.Actor.User, &e.Actor.Operation, &e.Actor.Reason,
	} {
		*word = shortWord(*word)
	}
	e.Revision, e.Former, e.Fields = max(e.Revision, 0), max(e.Former, 0), nil // the server itself knows the fields
	e.Schedule = ""
	if e.Breach != nil {
		b := *e.Breach
		b.Resource, b.Group = shortWord(b.Resource), shortWord(b.Group)
		b.Samples = b.Samples[max(0, len(b.Samples)-maxSamples):]
		b.Scores = b.Scores[:min(len(b.Scores), maxSamples)]
		e.Breach = &b
	}
	return e, true
}

// shortState is shortEvent for a record of a state. It keeps nothing else.
func shortState(e process.Event) (process.Event, bool) {
	ofAgent := e.Process == process.ID{}
	if e.Shown == nil || !ofAgent && process.ValidateID(e.Process) != nil {
		return e, false
	}
	s := *e.Shown
	if !slices.Contains(process.States(), s.State) {
		s.State = process.StateUnknown
	}
	s.Cause, s.Want, s.Version = shortWord(s.Cause), shortWord(s.Want), shortWord(s.Version)
	s.Text = ends(s.Text, maxSaid/8)
	s.PID, s.Restarts, s.Ran = max(s.PID, 0), max(s.Restarts, 0), max(s.Ran, 0)
	return process.Event{
		Stream: e.Stream, Seq: e.Seq, At: e.At, Process: e.Process, Kind: e.Kind, Shown: &s,
	}, true
}

// encoded returns an event with the JSON to store. That is the agent's line, unless the server changed the event or the
// line is too long. If the event is still too long, encoded shortens its texts and drops its evidence.
func encoded(e, told *process.Event, line []byte) store.NewEvent {
	if len(line) <= maxEvent && utf8.Valid(line) && reflect.DeepEqual(e, told) {
		return store.NewEvent{Event: *e, Body: string(line)}
	}
	body, _ := json.Marshal(e) // a decoded value can be encoded
	if len(body) > maxEvent {
		e.Output, e.Cause.Text, e.Cause.Evidence = ends(e.Output, maxSaid/8), ends(e.Cause.Text, maxSaid/8), nil
		if e.Breach != nil {
			e.Breach.Scores = nil
		}
		body, _ = json.Marshal(e)
	}
	return store.NewEvent{Event: *e, Body: string(body)}
}

// shortWord cuts a word to maxWord bytes.
func shortWord[T ~string](word T) T {
	return T(clip.Head(string(word), maxWord))
}

// ends removes the middle of a text that is too long.
func ends(text string, most int) string {
	if len(text) <= most {
		return text
	}
	half := most / 2
	left := fmt.Sprintf("\n… %d bytes were left out by the server …\n", len(text)-2*half)
	return clip.Head(text, half) + left + clip.Tail(text, half)
}
