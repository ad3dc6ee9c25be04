package main

import (
	"regexp"
	"strings"
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

// byTest matches what a test itself says, with its file and line.
var byTest = regexp.MustCompile(`^ +\w+_test\.go:\d+: `)

// mostSaid is how many lines of a test are repeated at the end, and mostOfLine how many bytes of each.
const mostSaid, mostOfLine = 6, 400

// said returns the first lines that the tests themselves have written. The logs of the programs that they ran are long,
// and whoever reads only the end of a run should see why it failed.
func said(output string) string {
	var lines strings.Builder
	n := 0
	for line := range strings.Lines(output) {
		if !byTest.MatchString(line) {
			continue
		}
		if n++; n > mostSaid {
			break
		}
		line = strings.TrimRight(line, "\n")
		lines.WriteString(line[:min(len(line), mostOfLine)] + "\n")
	}
	return lines.String()
}
