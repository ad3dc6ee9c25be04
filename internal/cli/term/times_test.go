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
