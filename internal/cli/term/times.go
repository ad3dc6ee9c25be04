package term

import (
	"time"

	"github.com/spf13/cobra"
)

// TimeRange is a time range as the flags give it.
type TimeRange struct {
	since, Until string
	// from and to are the names of the flags.
	from, to string
}

// Flags adds --since and --until.
func (r *TimeRange) Flags(cmd *cobra.Command) { r.named(cmd, "since", "until") }

// FlagsOfHistory adds --from and --to.
func (r *TimeRange) FlagsOfHistory(cmd *cobra.Command) { r.named(cmd, "from", "to") }

func (r *TimeRange) named(cmd *cobra.Command, from, to string) {
	r.from, r.to = from, to
	cmd.Flags().StringVar(&r.since, from, "", "only from this time on: RFC 3339 or an age such as 24h")
	cmd.Flags().StringVar(&r.Until, to, "", "only before this time: RFC 3339 or an age such as 1h")
}

// Times returns the range; a missing time is zero.
func (r *TimeRange) Times() (since, until time.Time, err error) {
	if since, err = Moment("--"+r.from, r.since); err == nil {
		until, err = Moment("--"+r.to, r.Until)
	}
	return since, until, err
}

// Moment parses a time, or an age, that a flag gives; a missing time is zero.
func Moment(flag, text string) (time.Time, error) {
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

// Ahead parses a time, or the time until it, that a flag gives; a missing time is zero.
func Ahead(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, Usagef("%s %q: expected a time such as 2026-11-20T10:30:00Z, or a time from now on such as 2h",
			flag, text)
	}
	return t, nil
}
