package supervisor

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"drover/internal/process"
)

const (
	// maxHeadline and maxGist are how long the first line of a cause may be, and what of an output may stand in it, in
	// characters.
	maxHeadline = 200
	maxGist     = 80
)

// headline makes one short line of printable characters of a text that a command wrote a part of; rest is what else is
// to be told of that part.
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

// headlineOf is headline of an error.
func headlineOf(before string, err error) (line string, rest []string) {
	output := ""
	if known, ok := errors.AsType[*process.Error](err); ok {
		output = known.Output
	}
	return headline(before+err.Error(), output)
}

// gist is the last line of an output, as far as there is room for it.
func gist(output string) string {
	if binary(output) {
		return "binary output"
	}
	output = strings.TrimSpace(output)
	return oneLine(output[strings.LastIndexByte(output, '\n')+1:], maxGist)
}

// oneLine returns the beginning of a text on one line, without what cannot be printed.
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

// binary reports whether an output is no text: more than a tenth of it cannot be printed.
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
