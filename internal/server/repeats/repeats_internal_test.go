package repeats

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"drover/internal/loglimit"
	"drover/internal/server/store"
)

// TestOneLineAMinute: an outage of the database is one line a minute, whatever fails by it and for whom, and so are
// hosts that are not known, and the same about agents that give cause for it too often; all else is told each time.
func TestOneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := slog.New(loglimit.New(slog.NewTextHandler(&text, nil), Rule()))
		down := fmt.Errorf("cannot store: %w", &store.Failure{Err: errors.New("connection refused")})
		for range 150 { // seconds
			for agent := range 10 {
				log.With("part", "engine").Warn("rejected report", "agent", agent, "error", down)
				log.Warn(UnregisteredAgent, "agent", agent, "error", nil)
				log.Info("agent introduced itself", "agent", agent, "build", "mad")
			}
			log.Error("cannot read due items", "error", down)
			time.Sleep(time.Second)
		}
		for range 3 {
			log.Warn("rejected report", "error", errors.New("cannot read report"))
			log.Info("all is well", "error", down)
		}
		for what, want := range map[string]int{
			"connection refused": 3 + 3, UnregisteredAgent: 3, "introduced itself": linesOfOne*10 + 3,
			"cannot read report": 3, "left_out=659": 2, "left_out=599": 2 + 2,
		} {
			if got := strings.Count(text.String(), what); got != want {
				t.Errorf("%q is told %d times, want %d", what, got, want)
			}
		}
		if t.Failed() {
			t.Log(text.String())
		}
	})
}

// TestWhatOneSaysAgainAndAgain: an agent that says what is worth a line without end gets some lines, and others have
// theirs; those who are made up get no more than there are agents.
func TestWhatOneSaysAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := slog.New(loglimit.New(slog.NewTextHandler(&text, nil), Rule()))
		lines := func(fn func()) int {
			text.Reset()
			fn()
			return strings.Count(text.String(), "\n")
		}
		many := lines(func() {
			for range 10_000 {
				log.Warn("rejected report", "agent", "evil")
			}
		})
		few := lines(func() {
			for range 5 {
				log.Warn("rejected report", "agent", "good")
			}
		})
		made := lines(func() {
			for i := range 100_000 {
				log.Warn("rejected report", "agent", fmt.Sprint(i))
			}
		})
		if many > 30 || few != 5 || made > 11_000 {
			t.Errorf("there are %d lines of one, %d of another and %d of many who are made up", many, few, made)
		}
		time.Sleep(2 * time.Minute)
		if again := lines(func() { log.Warn("rejected report", "agent", "evil") }); again != 1 ||
			!strings.Contains(text.String(), "left_out=") {
			t.Errorf("later there are %d lines: %s", again, text.String())
		}
	})
}

// TestTheClockWasSetBack: what was counted in a far future is forgotten once the clock is right.
func TestTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	rule, now := Rule(), time.Now()
	of := func(at time.Time) string {
		record := slog.NewRecord(at, slog.LevelWarn, "rejected report", 0)
		record.Add("agent", "A")
		trouble, _ := rule(record)
		return trouble
	}
	for range linesOfOne + 1 {
		of(now.AddDate(10, 0, 0))
	}
	if of(now.AddDate(10, 0, 0)) == "" {
		t.Error("a line that was told often is no trouble")
	}
	if got := of(now); got != "" {
		t.Errorf("after the clock was set back the first line is the trouble %q", got)
	}
}
