package supervisor_test

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"drover/internal/agent/operation/operationtest"
	"drover/internal/process"
)

// TestHeadline: whatever a command writes, the cause of its failure is one short line that can be read; what it wrote
// is evidence.
func TestHeadline(t *testing.T) {
	garbage := strings.Repeat("\x01\x02\ufffd\x7fz", 500)
	for name, c := range map[string]struct{ output, line, evidence string }{
		"short":   {"no such option", "[no such option]", ""},
		"garbage": {garbage, "[binary output]", "it wrote:\n(binary)"},
		"many lines": {
			strings.Repeat("reading\n", 100) + "the port is taken", "[the port is taken]",
			"reading\nreading\nreading\nreading\nthe port is taken",
		},
		"a long one": {strings.Repeat("word ", 400), "word word", "it wrote:\n"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.do(process.Register, "a", r.spec("a"))
				r.Script(line("start", "a"), operationtest.Script{Code: 3, Output: c.output})
				r.submit(process.Start, "a", nil)
				r.pass(time.Minute)
				got := r.state("a", "stopped", false)
				for _, text := range []string{
					got.Cause.Text, got.Message,
					r.lastEvent(process.EventFailed).Cause.Text,
				} {
					if utf8.RuneCountInString(text) > 200 ||
						strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
						t.Errorf("the headline is %q", text)
					}
					if !strings.Contains(text, c.line) || !strings.Contains(text, "exit status 3") {
						t.Errorf("%q does not say %q and how it ended", text, c.line)
					}
				}
				if all := strings.Join(got.Cause.Evidence, "\n"); !strings.Contains(all, c.evidence) ||
					!utf8.ValidString(all) {
					t.Errorf("evidence %q, want %q", all, c.evidence)
				}
			})
		})
	}
}

// TestLastWordsOfALog: a daemon that writes its own log tells there why it dies. What it wrote to its output comes
// first.
func TestLastWordsOfALog(t *testing.T) {
	for name, c := range map[string]struct{ output, want, evidence string }{
		"only its log":    {"", "FATAL: no space", "the end of its log /log/a:\nFATAL: no space"},
		"also its output": {"panic", "panic", "its last output:\npanic"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				s := r.spec("a")
				s.LogFile = "/log/a"
				r.Script(line("start", "a"), operationtest.Script{
					Takes: time.Second, Output: c.output, End: func(run string) { r.Spawn("a", file("a"), run) },
				})
				r.do(process.Start, "a", s)
				r.Script(line("start", "a"),
					operationtest.Script{Takes: time.Hour, Begin: func(string) { r.Log("/log/a", "a new life") }})
				r.Log("/log/a", "FATAL: no space")
				r.Exit(r.instance("a"), 3)
				r.pass(5 * time.Second)
				if e := r.lastEvent(process.EventExited); e.Output != c.want {
					t.Errorf("the event says %q, want %q", e.Output, c.want)
				}
				got, _, _ := r.Snapshot(id("a"))
				if all := strings.Join(got.Cause.Evidence, "\n"); !strings.Contains(all, c.evidence) {
					t.Errorf("evidence %q, want %q", all, c.evidence)
				}
			})
		})
	}
}
