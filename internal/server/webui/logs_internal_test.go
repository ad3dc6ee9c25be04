package webui

import (
	"strings"
	"testing"
	"time"

	v1 "drover/api/v1"
)

// TestLinesByTime: the lines of several hosts are in the order of their times, and those of one host keep their order.
func TestLinesByTime(t *testing.T) {
	line := func(host, text string, second int) v1.LogLine {
		l := v1.LogLine{Host: host, Name: "api", Text: text}
		if second > 0 {
			at := time.Unix(int64(second), 0)
			l.Time = &at
		}
		return l
	}
	var got []string
	for _, l := range byTime([]v1.LogLine{
		line("a", "a0", 0), line("a", "a1", 3), line("a", "a2", 0), line("a", "a3", 5),
		line("c", "c1", 3), line("b", "b1", 1), line("b", "b2", 4), line("b", "b3", 4), line("aa", "aa1", 3),
	}) {
		got = append(got, l.Text)
	}
	if text := strings.Join(got, " "); text != "a0 b1 a1 a2 aa1 c1 b2 b3 a3" {
		t.Errorf("the lines are %s", text)
	}
}
