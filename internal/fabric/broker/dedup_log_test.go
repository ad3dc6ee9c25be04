package broker

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestARefusedRelayIsToldOfRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(newDedupLog(slog.NewTextHandler(&out, nil))).With("part", "relay").WithGroup("server")
		for i := range 700 { // one each second
			log.Warn("said", "text", fmt.Sprintf("127.0.0.1:%d - lid:%d - Authorization Violation", 40000+i, i))
			log.Info("an info")
			time.Sleep(time.Second)
		}
		log.Warn("said", "text", "something else")
		for text, want := range map[string]int{"Authorization Violation": 2, "an info": 700, "something else": 1} {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%q was logged %d times, want %d", text, got, want)
			}
		}
		for i := range 2 * maxLoggedTexts {
			log.Warn("said", "text", strings.Repeat("x", i))
		}
	})
}
