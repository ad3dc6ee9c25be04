package story

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"drover/internal/clip"
	"drover/internal/process"
)

const (
	// maxHeadline is the longest first line of a cause. maxGist is the longest part of an output in it. Both are in
	// characters.
	maxHeadline = 200
	maxGist     = 80
	// maxNote is the longest note, in bytes: drover stores the note, and sends it with every change.
	maxNote = 2 << 10
	// proofLines and proofBytes bound the part of an output that is evidence.
	proofLines = 5
	proofBytes = 1000
)

// headline makes one short printable line of a text. output is the part of the text that a command wrote; rest is
// evidence from that output.
func headline(text, output string) (line string, rest []string) {
	if utf8.RuneCountInString(text) <= maxHeadline && !strings.ContainsFunc(text, unprintable) {
		return text, nil
	}
	if output != "" {
		text = strings.Replace(text, "["+output+"]", "["+gist(output)+"]", 1)
		rest = []string{"it wrote:\n" + lastLines(output)}
	}
	return oneLine(text, maxHeadline), rest
}

// Headline returns one short line about an error, after the given words, and the rest of what the error says.
func Headline(before string, err error) (line string, rest []string) {
	output := ""
	if known, ok := errors.AsType[*process.Error](err); ok {
		output = known.Output
	}
	return headline(before+err.Error(), output)
}

// gist is the last line of an output, shortened to maxGist.
func gist(output string) string {
	if binary(output) {
		return "binary output"
	}
	output = strings.TrimSpace(output)
	return oneLine(output[strings.LastIndexByte(output, '\n')+1:], maxGist)
}

// oneLine returns the beginning of a text on one line, without unprintable characters.
func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c):
			return ' '
		case unprintable(c):
			return -1
		}
		return c
	}, text)), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

func unprintable(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError }

// binary reports whether an output is not text: more than a tenth of it is unprintable.
func binary(output string) bool {
	odd, all := 0, 0
	for _, c := range output {
		all++
		if unprintable(c) && !unicode.IsSpace(c) {
			odd++
		}
	}
	return odd*10 > all
}

// lastLines returns the end of an output.
func lastLines(output string) string {
	if binary(output) {
		return "(binary)"
	}
	output = clip.Tail(strings.TrimSpace(output), proofBytes)
	lines := strings.Split(output, "\n")
	return strings.Join(lines[max(0, len(lines)-proofLines):], "\n")
}

// Join joins two texts with a semicolon. Either text may be empty.
func Join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + "; " + b
}

// By adds the actor to a deed, if the actor is known.
func By(deed string, a process.Actor) string {
	var notes []string
	switch {
	case a.User != "":
		deed += " by " + a.User
		if a.App != "" && a.App != "person:"+a.User { // a person has an app of the same name
			notes = append(notes, "app "+a.App)
		}
	case a.App != "":
		deed += " by app " + a.App
	}
	if a.Reason != "" {
		notes = append(notes, a.Reason)
	}
	if len(notes) > 0 {
		deed += " (" + strings.Join(notes, "; ") + ")"
	}
	return deed
}

// Policy returns the actor of what drover does because the spec says so.
func Policy() process.Actor { return process.Actor{Kind: process.ActorPolicy} }

// Caller returns the actor of an operation that a caller asked for. item is that of the operation, and counts if the
// order does not name the task of the caller.
func Caller(a process.Actor, item string) process.Actor {
	a.Kind, a.Operation = process.ActorCaller, cmp.Or(a.Operation, item)
	return a
}

// ender returns the actor of an end without an operation.
func ender(e *process.Exit) process.Actor {
	switch {
	case e == nil || !e.Known:
		return process.Actor{}
	case e.OOM || e.Core || e.Fault():
		return process.Actor{Kind: process.ActorKernel}
	case e.Signal != 0:
		return process.Actor{Kind: process.ActorOutside}
	}
	return process.Actor{Kind: process.ActorSelf}
}

func itoa(n int) string { return strconv.Itoa(n) }
