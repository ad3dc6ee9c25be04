package pattern_test

import (
	"runtime"
	"strings"
	"testing"

	"drover/internal/pattern"
)

// TestPatternsAreBounded: an expression that would take much memory or time is refused before it is compiled.
func TestPatternsAreBounded(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("a", pattern.Max+1):                   "has 1001 bytes: expected at most 1000",
		strings.Repeat(".{0,1000}", 110):                     "has more than 2000 steps",
		strings.Repeat("(?:.?.?){0,490}", 3):                 "has more than 2000 steps",
		"((a{1000}){1000}){1000}":                            "is not a regular expression (RE2)",
		"(":                                                  "is not a regular expression (RE2)",
		"(?i)" + strings.Repeat(`[B-\x{1e942}]`, 70):         "ignores case in more than 8 classes",
		"(?s)(?i:[" + strings.Repeat(`\pL`, 300) + "])":      "ignores case in more than 8 classes",
		"(?-s)(?mi)" + strings.Repeat(`[!-𞥂]`, 100):          "ignores case in more than 8 classes",
		"(?P<n>a)(?i)" + strings.Repeat(`[^B-\x{ffff}]`, 50): "ignores case in more than 8 classes",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := pattern.Parse(text)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.30q: %v, expected %q", text, err, want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%.30q: took %d bytes", text, took)
		}
	}
	for _, text := range []string{
		"", `^started in \d+ ms$`, ".{0,1000}ready", "(?i)listening|启动完成", `(\d{1,3}\.){3}\d{1,3}`,
		strings.Repeat("a", pattern.Max), strings.Repeat(`\pL`, 300),
	} {
		if _, err := pattern.Parse(text); err != nil {
			t.Errorf("%.30q: %v", text, err)
		}
	}
}

// TestPatternsIgnoreColours: a line matches by what a person reads of it, and in its first 4 KiB.
func TestPatternsIgnoreColours(t *testing.T) {
	p, err := pattern.Parse("^INFO ready")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", pattern.MaxLine) + "ready"
	for line, want := range map[string]bool{
		"INFO ready": true, "\x1b[32mINFO\x1b[0m ready": true, "\x1b]0;title\x07INFO \x1b[1;38:5:3mready": true,
		"\x1b[32mWARN\x1b[0m ready": false, long: false,
	} {
		if p.Match([]byte(line)) != want {
			t.Errorf("%.40q: expected %v", line, want)
		}
	}
	if none, err := pattern.Parse(""); err != nil || !none.Match([]byte("x")) {
		t.Error("an empty expression does not match every line")
	}
}
