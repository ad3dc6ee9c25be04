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
			b.Errorf("publish violation by %s", "A")
		}
		time.Sleep(time.Minute)
		b.Errorf("later")
		for text, want := range map[string]int{
			"our own configuration": 0, "publish violation by A": maxWarnings, "lines=940": 1, "later": 1,
		} {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%q was logged %d times, want %d", text, got, want)
			}
		}
	})
}
