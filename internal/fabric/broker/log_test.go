package broker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWarningsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := &logBridge{log: slog.New(slog.NewTextHandler(&out, nil))}
		b.Warnf("our own configuration")
		b.begun()
		for range 1000 {
			b.Errorf("Publish Violation by %s", "A")
		}
		b.Noticef("Slow Consumer Detected: %s", "our own link")
		time.Sleep(time.Minute)
		b.Errorf("later")
		for text, want := range map[string]int{
			"our own configuration": 0, "Publish Violation by A": maxWarnings, "our own link": 1, "lines=940": 1,
			"later": 1,
		} {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%q was logged %d times, want %d", text, got, want)
			}
		}
	})
}
