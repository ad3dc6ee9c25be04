package term

import (
	"time"

	"github.com/spf13/cobra"
)

// TimeRange is a time range as the flags give it.
type TimeRange struct{ since, Until string }

// Flags adds --since and --until.
func (r *TimeRange) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.since, "since", "", "only from this time on: RFC 3339 or an age such as 24h")
	cmd.Flags().StringVar(&r.Until, "until", "", "only before this time: RFC 3339 or an age such as 1h")
}

// Times returns the range; a missing time is zero.
func (r *TimeRange) Times() (since, until time.Time, err error) {
	if since, err = moment("--since", r.since); err == nil {
		until, err = moment("--until", r.Until)
	}
	return since, until, err
}

// moment parses a time, or an age.
func moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, Usagef("%s %q: expected a time such as 2026-11-20T10:30:00Z, or an age such as 24h", flag,
			text)
	}
	return t, nil
}
