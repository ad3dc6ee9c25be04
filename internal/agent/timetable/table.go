// Package timetable computes when the runs of periodic processes are due, and calls back at that time. It owns the
// timetables, the delay that spreads runs, the definition of a missed run, and one timer for all processes. It starts
// nothing: the caller decides what a run is, and what happens if the previous run still runs.
package timetable

import (
	"fmt"
	"strings"
	"time"

	"drover/internal/crontab"
	"drover/internal/process"
)

// Table is the timetable of one process: a crontab rule, or an interval in seconds. The zero Table has no run. It may
// be copied and used concurrently.
type Table struct {
	rule   crontab.Rule
	every  time.Duration
	jitter time.Duration
}

// Parse makes the table of a periodic process. The error is a *process.Error that names each wrong field.
func Parse(s *process.Spec) (Table, error) {
	var faults []string
	for _, f := range process.TimetableFaults(s) {
		faults = append(faults, f.Text)
	}
	if len(faults) > 0 {
		return Table{}, process.Errorf(process.Failed, "%s", strings.Join(faults, "; "))
	}
	plan := s.Timetable()
	t := Table{every: plan.Interval(), jitter: plan.Spread()}
	if plan.Cron == "" {
		return t, nil
	}
	var zone *time.Location
	var err error
	if plan.TimeZone != "" {
		if zone, err = crontab.Zone(plan.TimeZone); err != nil {
			return Table{}, fmt.Errorf("cannot find time zone: %w", err)
		}
	}
	if t.rule, err = crontab.Parse(plan.Cron, zone); err != nil {
		return Table{}, fmt.Errorf("cannot read crontab rule: %w", err)
	}
	return t, nil
}

// Next returns the first run after a moment, without its delay; for a table of seconds that moment is the previous
// run. It is false if there is none.
func (t Table) Next(after time.Time) (time.Time, bool) {
	if t.every > 0 {
		return after.Round(0).Add(t.every), true
	}
	return t.rule.Next(after)
}

// mostCounted is how many past runs the table counts: for a rule with a run in every minute, those of two days.
const mostCounted = 3000

// Between returns how many runs were due after last and not after now, and when the last of them was. Beyond 3,000 they
// are not counted any more.
func (t Table) Between(last, now time.Time) (newest time.Time, count int) {
	if t.every > 0 {
		if n := now.Sub(last) / t.every; n > 0 {
			return last.Round(0).Add(n * t.every), int(min(n, mostCounted))
		}
		return time.Time{}, 0
	}
	return t.rule.Between(last, now)
}

// before returns the run before another run.
func (t Table) before(run time.Time) time.Time {
	if t.every > 0 {
		return run.Add(-t.every)
	}
	return t.rule.Newest(run.Add(-1))
}

// ofDay reports whether the table has times of day, which must not repeat after a small correction of the clock.
func (t Table) ofDay() bool { return t.every == 0 && !t.rule.Hourly() }
