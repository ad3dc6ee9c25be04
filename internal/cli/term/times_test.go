package term_test

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"drover/internal/cli/term"
)

// TestLengthsHaveDays: flags take the lengths of time that process files and messages have.
func TestLengthsHaveDays(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "1d1h": day + time.Hour, "90s": 90 * time.Second, "-1h": -time.Hour, "0": 0, "d": -1, "7": -1, "1d-1h": -1,
	} {
		var got time.Duration
		f := pflag.NewFlagSet("x", pflag.ContinueOnError)
		term.LengthVar(f, &got, "for", 0, "help")
		if err := f.Parse([]string{"--for", text}); (err != nil) != (want == -1) || err == nil && got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
		if want <= 0 {
			continue
		}
		at, err := term.Moment("--since", text)
		if ago := time.Since(at); err != nil || ago < want || ago > want+time.Minute {
			t.Errorf("--since %s is %v ago, %v", text, ago, err)
		}
		if at, err = term.Ahead("--until", text); err != nil || time.Until(at) > want || time.Until(at) < want-time.Minute {
			t.Errorf("--until %s is in %v, %v", text, time.Until(at), err)
		}
	}
}

// TestStampsAreTimes: a time that drover has printed is one that its flags take.
func TestStampsAreTimes(t *testing.T) {
	const want = "2026-11-20T10:30:00Z"
	at, err := time.Parse(time.RFC3339, want)
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"", "UTC", "Asia/Tokyo", "America/St_Johns", "Europe/London", "Africa/Abidjan"} {
		text := term.StampIn(&at, zone)
		for name, read := range map[string]func(string, string) (time.Time, error){"--since": term.Moment, "--until": term.Ahead} {
			if got, err := read(name, text); err != nil || !got.Equal(at) {
				t.Errorf("%s %q is %v, %v; want %v", name, text, got, err, at)
			}
		}
	}
	if got, err := term.Moment("--at", "2026-11-20 10:30:00"); err != nil || got.Format(time.DateTime) != "2026-11-20 10:30:00" {
		t.Errorf("without a zone: %v, %v", got, err)
	}
	for _, text := range []string{"2026-11-20 10:30:00 CST", "2026-11-20 10:30 UTC", "2026-11-20 25:30:00 UTC"} {
		if got, err := term.Moment("--at", text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
