package schedule

import (
	"testing"
	"time"

	"drover/internal/crontab"
)

// TestJudge: what is due and what is missed, also when clocks change.
func TestJudge(t *testing.T) {
	berlin, err := crontab.Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := func(month time.Month, d, hour, minute, second int) time.Time {
		return time.Date(2026, month, d, hour, minute, second, 0, berlin)
	}
	const nightly, hourly = "30 2 * * *", "30 * * * *"
	for _, c := range []struct {
		name, cron  string
		looked, now time.Time
		missed      int
		due, next   time.Time
	}{
		{"nothing yet", nightly, day(1, 1, 12, 0, 0), day(1, 2, 2, 29, 59), 0, time.Time{}, day(1, 2, 2, 30, 0)},
		{"due", nightly, day(1, 1, 12, 0, 0), day(1, 2, 2, 30, 0), 0, day(1, 2, 2, 30, 0), day(1, 3, 2, 30, 0)},
		{"late", nightly, day(1, 1, 12, 0, 0), day(1, 2, 2, 31, 0), 0, day(1, 2, 2, 30, 0), day(1, 3, 2, 30, 0)},
		{"too late", nightly, day(1, 1, 12, 0, 0), day(1, 2, 2, 31, 1), 1, time.Time{}, day(1, 3, 2, 30, 0)},
		{"days later", nightly, day(1, 1, 12, 0, 0), day(1, 5, 12, 0, 0), 4, time.Time{}, day(1, 6, 2, 30, 0)},
		{"days later, and due", nightly, day(1, 1, 12, 0, 0), day(1, 5, 2, 30, 9), 3, day(1, 5, 2, 30, 0), day(1, 6, 2, 30, 0)},
		{"clock set back a little", nightly, day(1, 2, 2, 30, 0), day(1, 2, 1, 0, 0), 0, time.Time{}, day(1, 3, 2, 30, 0)},
		{"clock of each hour set back", hourly, day(1, 2, 2, 30, 0), day(1, 2, 0, 31, 0), 0, time.Time{}, day(1, 2, 1, 30, 0)},
		{"clock of each hour wobbles", hourly, day(1, 2, 2, 30, 0), day(1, 2, 2, 29, 0), 0, time.Time{}, day(1, 2, 3, 30, 0)},
		{"clock was a year ahead", nightly, day(1, 2, 2, 30, 0).AddDate(1, 0, 0), day(1, 2, 1, 0, 0), 0, time.Time{}, day(1, 2, 2, 30, 0)},
		// 29 March: 02:30 does not exist, and the run is at the change, 03:00.
		{"spring", nightly, day(3, 28, 12, 0, 0), day(3, 29, 3, 0, 0), 0, day(3, 29, 3, 0, 0), day(3, 30, 2, 30, 0)},
		// 25 October: 02:30 comes twice, at 00:30 and 01:30 UTC.
		{
			"autumn, first", nightly, day(10, 24, 12, 0, 0), time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), 0,
			time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), day(10, 26, 2, 30, 0),
		},
		{
			"autumn, second", nightly, time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC),
			time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC), 0,
			time.Time{},
			day(10, 26, 2, 30, 0),
		},
		{
			"autumn, each hour", hourly, time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC),
			time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC), 0, time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC),
			time.Date(2026, 10, 25, 2, 30, 0, 0, time.UTC),
		},
	} {
		rule, err := crontab.Parse(c.cron, berlin)
		if err != nil {
			t.Fatal(err)
		}
		looked := c.looked
		if corrected(rule, looked, c.now) {
			looked = c.now
		}
		p := judge(rule, looked, c.now)
		if p.missed != c.missed || !p.due.Equal(c.due) || !p.next.Equal(c.next) {
			t.Errorf("%s: %+v, want %d missed, due %s, next %s", c.name, p, c.missed, c.due, c.next)
		}
		if p.missed > 0 && (p.first.After(p.last) || !p.last.Before(c.now) || !p.due.IsZero() && !p.last.Before(p.due)) {
			t.Errorf("%s: missed from %s to %s", c.name, p.first, p.last)
		}
	}
}
