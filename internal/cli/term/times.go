package term

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"drover/internal/spec"
)

// length is a flag with a length of time: as time.ParseDuration reads it, or with days, such as 7d.
type length time.Duration

// LengthVar adds a flag with a length of time, which may have days.
func LengthVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, help string) {
	*to = value
	f.Var((*length)(to), name, help)
}

// Set implements pflag.Value.
func (l *length) Set(text string) error {
	d, err := ParseLength(text)
	if err == nil {
		*l = length(d)
	}
	return err
}

// String implements pflag.Value. The help shows no default of 0.
func (l *length) String() string {
	if *l == 0 {
		return "0"
	}
	return time.Duration(*l).String()
}

// Type implements pflag.Value.
func (*length) Type() string { return "duration" }

// ParseLength reads a length of time, which may have days.
func ParseLength(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	d, err := spec.ParseDuration(text)
	return time.Duration(d), err
}

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
	cmd.Flags().StringVar(&r.since, from, "", "only from this time on: RFC 3339, 10:00 or an age such as 24h")
	cmd.Flags().StringVar(&r.Until, to, "", "only before this time: RFC 3339, 10:00 or an age such as 1h")
	cmd.PreRunE = Chain(cmd.PreRunE, func(*cobra.Command, []string) error {
		_, _, err := r.Times()
		return err
	})
}

// Times returns the range; a missing time is zero.
func (r *TimeRange) Times() (since, until time.Time, err error) {
	return Span(r.from, r.since, r.to, r.Until)
}

// Span is Moment for the two ends of a span of time, with the names of their flags.
func Span(from, begin, to, end string) (begins, ends time.Time, err error) {
	begins, err1 := Moment("--"+from, begin)
	ends, err2 := Moment("--"+to, end)
	if err = errors.Join(err1, err2); err != nil {
		return begins, ends, err
	}
	if !begins.IsZero() && !ends.IsZero() && !begins.Before(ends) {
		err = Usagef("--%s is %s, and not before --%s, which is %s", from, Stamp(&begins), to, Stamp(&ends))
	}
	return begins, ends, err
}

// Moment parses a time, a time of this day, or an age, with or without a minus, that a flag gives; a missing time is
// zero. A time of day is by the clock of this machine, and the last one that has passed.
func Moment(flag, text string) (time.Time, error) {
	now := time.Now()
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := ParseLength(text); err == nil {
		return now.Add(-d.Abs()), nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
			return at, nil
		}
	}
	if t, err := time.ParseInLocation(time.DateTime, text, time.Local); err == nil {
		return t, nil
	}
	t, err := Written(text)
	if err != nil {
		return time.Time{}, Usagef(
			"%s %q: expected a time such as 2026-11-20T10:30:00Z or 10:30, or an age such as 24h", flag, text)
	}
	return t, nil
}

// Written parses a time by RFC 3339, or as Stamp prints it. Of zones without an offset it knows only those that are
// never another one.
func Written(text string) (time.Time, error) {
	if t, err := time.Parse(stampOffset, text); err == nil {
		return t, nil
	}
	if t, err := time.Parse(stampZone, text); err == nil {
		if zone, _ := t.Zone(); slices.Contains([]string{"UTC", "GMT", "WET", "+00"}, zone) {
			return t, nil
		}
	}
	return time.Parse(time.RFC3339, text)
}

// Ahead parses a time, or the time until it, that a flag gives; a missing time is zero.
func Ahead(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := ParseLength(text); err == nil && d >= 0 {
		return time.Now().Add(d), nil
	}
	t, err := Written(text)
	if err != nil {
		return time.Time{}, Usagef("%s %q: expected a time such as 2026-11-20T10:30:00Z, or a time from now on such as 2h",
			flag, text)
	}
	return t, nil
}
