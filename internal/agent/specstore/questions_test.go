package specstore_test

import (
	"testing"

	"drover/internal/agent/record"
	"drover/internal/process"
)

func question(item string) record.Entry {
	e := entry(item, 1)
	e.Op = process.Query
	return e
}

// TestQuestions: a question is fresh once until the server has its answer, and asked anew by the next agent of the same
// boot as long as it has not.
func TestQuestions(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, boot)
	fresh, known := accept(t, s, question("asked"), entry("command", 1), question("answered"), question("told"))
	want(t, "fresh", items(fresh), []string{"command", "asked", "answered", "told"})
	want(t, "known", items(known), []string{})
	fresh, known = accept(t, s, question("asked"), question("answered"), entry("command", 1), question("new"))
	want(t, "fresh of the second time", items(fresh), []string{"new"})
	want(t, "known of the second time", items(known), []string{"command", "asked", "answered"})
	if err := s.Acknowledge([]string{"told", "never-heard-of"}); err != nil {
		t.Fatal(err)
	}
	fresh, _ = accept(t, s, question("told"))
	want(t, "fresh after the server had the answer", items(fresh), []string{"told"})
	if err := s.Acknowledge([]string{"told"}); err != nil {
		t.Fatal(err)
	}
	close(t, s)

	s = open(t, dir, boot)
	left, unacked := journal(t, s)
	want(t, "open", left, []string{"command", "answered", "asked", "new"})
	want(t, "unacknowledged", unacked, []string{})
	_, known = accept(t, s, question("asked"))
	want(t, "known to the next agent", items(known), []string{"asked"})
	close(t, s)

	s = open(t, dir, "boot-2")
	left, _ = journal(t, s)
	want(t, "open after a reboot", left, []string{"command"})
}
