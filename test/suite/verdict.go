package main

import (
	"regexp"
	"slices"
	"strings"

	"drover/internal/clip"
)

// never is what a test prints if its fall cannot be luck: a command that ran twice, or something that leaks.
const never = "NEVER A FLAKE"

// detectorsEnd is what a race detector prints that ends itself (golang.org/issue/78156). Go 1.26 has this defect:
// about one run in ten of a package whose tests use testing/synctest ends so.
const detectorsEnd = "ThreadSanitizer: CHECK failed"

// parentsEnd is how the testing package ends the process when a parallel sub-test fails by the t of its parent. That is
// an ordinary fall.
const parentsEnd = "panic: test executed panic(nil) or runtime.Goexit"

// certain returns why the fall of a package cannot be luck, or nothing.
func certain(p *running, output string) string {
	switch {
	case p.broken || strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
		return "it does not build"
	case strings.HasSuffix(p.name, "/archtest"):
		return "it breaks a rule of the code"
	case p.race:
		return "a data race"
	case strings.Contains(output, never):
		return "the test says " + never
	case strings.Contains(output, "Failing input written to testdata"):
		return "a crasher of fuzzing"
	}
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic: ") && !strings.HasPrefix(line, "panic: test timed out after ") &&
			!strings.HasPrefix(line, parentsEnd) {
			return line
		}
		if strings.HasPrefix(line, "fatal error: ") { // the runtime's own panics: a map written by two, a deadlock
			return line
		}
	}
	return ""
}

// told matches what says why a test fell: a line of the test itself with its file and line, a panic, a race.
var told = regexp.MustCompile(`^\s*\w+\.go:\d+: |^\s*panic: |WARNING: DATA RACE`)

// fewest and last are how many lines of a fall are repeated at the end: the first ones and the last ones. A test may log
// before it says what is wrong, and after that.
const fewest, last = 3, 3

// mostOfLine is how many characters of a line are repeated.
const mostOfLine = 400

// said returns a few lines that say why a package fell. The logs of the programs that tests run are long, and who reads
// only the end of a run should see why it failed.
func said(output string) string {
	var all, lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		if all = append(all, line); told.MatchString(line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 { // it does not build, or ended without a word
		lines = all[max(0, len(all)-fewest-last):]
	}
	if len(lines) > fewest+last {
		lines = slices.Concat(lines[:fewest], lines[len(lines)-last:])
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(clip.Head(line, mostOfLine) + "\n")
	}
	return b.String()
}
