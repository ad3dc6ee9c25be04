package agent

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/loglimit"
)

// TestTheFabricDoesNotFillTheLog: however much comes that is refused, there are some lines a minute; all else is told
// each time.
func TestTheFabricDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := slog.New(loglimit.New(slog.NewTextHandler(&text, nil), limitFabric)).With("part", "agent")
		for range 180 { // seconds
			for range 100 {
				log.Warn("rejected message", "error", "forged")
			}
			log.Warn("disk is slow")
			time.Sleep(time.Second)
		}
		for what, want := range map[string]int{"rejected message": 30, "disk is slow": 180, "left_out=5990": 2} {
			if got := strings.Count(text.String(), what); got != want {
				t.Errorf("%q is told %d times, want %d", what, got, want)
			}
		}
	})
}
