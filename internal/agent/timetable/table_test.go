package timetable_test

import (
	"errors"
	"testing"
	"time"

	v1 "drover/api/v1"
	"drover/internal/agent/timetable"
	"drover/internal/process"
)

func TestParseNamesTheField(t *testing.T) {
	const none = `is empty: a periodic process (auto_type 0) needs it, such as "*/5 * * * *", or a cycle_time in seconds`
	for _, c := range []struct {
		s    v1.Spec
		want string
	}{
		{v1.Spec{}, "schedule.cron " + none},
		{v1.Spec{Compat: &v1.Compat{}}, "spec.monitor_policy.crontab_rule " + none},
		{
			v1.Spec{Schedule: &v1.Schedule{Cron: "@daily", Every: seconds(60)}, Compat: &v1.Compat{}},
			"spec.monitor_policy.crontab_rule and cycle_time are both set: expected one of them",
		},
		{
			v1.Spec{Schedule: &v1.Schedule{Every: seconds(-1)}, Compat: &v1.Compat{}},
			"spec.monitor_policy.cycle_time is -1: expected 1 to 2592000 seconds",
		},
		{
			v1.Spec{Schedule: &v1.Schedule{Cron: "0 24 * * *", Jitter: seconds(-5), TimeZone: "Berlin"}},
			`schedule.time_zone "Berlin" is not a time zone: expected a name of the IANA database, such as Asia/Shanghai or UTC; ` +
				`schedule.cron "0 24 * * *": hour "24": expected 0 to 23, with * for all, lists 1,2, ranges 1-5 and steps */2; ` +
				`schedule.jitter is -5s: expected at most 24h`,
		},
		{
			v1.Spec{Schedule: &v1.Schedule{Every: seconds(60), Jitter: seconds(60)}},
			"schedule.jitter is 1m: expected less than the 1m between two runs",
		},
	} {
		_, err := timetable.Parse(&c.s)
		problem, ok := errors.AsType[*process.Error](err)
		if !ok || problem.Fault != process.Failed || problem.Text != c.want {
			t.Errorf("%+v:\n got %v\nwant %s", c.s, err, c.want)
		}
	}
}

func seconds(n int) *v1.Duration { return new(v1.Duration(time.Duration(n) * time.Second)) }

func TestBetween(t *testing.T) {
	for _, c := range []struct {
		table  timetable.Table
		away   time.Duration
		newest string
		count  int
	}{
		{timetable.Table{}, 1000 * time.Hour, "", 0},
		{rule(t, "0 * * * *"), 0, "", 0},
		{rule(t, "0 * * * *"), time.Second, "11-20 12:00:00", 1},
		{rule(t, "0 * * * *"), 2 * time.Hour, "11-20 12:00:00", 2},
		{rule(t, "7 11 * * *"), 100 * 24 * time.Hour, "11-20 11:07:00", 100},
		{rule(t, "59 * * * *"), 9000 * time.Hour, "11-20 11:59:00", 3000},
		{rule(t, "0 0 29 2 *"), 9 * 365 * 24 * time.Hour, "02-29 00:00:00", 2},
		{every(t, time.Hour), 59 * time.Minute, "", 0},
		{every(t, time.Hour), 150 * time.Minute, "11-20 11:30:00", 2},
		{every(t, time.Minute), 9000 * time.Hour, "11-20 12:00:00", 3000},
	} {
		last := noon().Add(-c.away)
		newest, count := c.table.Between(last, noon())
		got := ""
		if !newest.IsZero() {
			got = newest.Format("01-02 15:04:05")
		}
		if got != c.newest || count != c.count {
			t.Errorf("after %s: %d up to %q, want %d up to %q", c.away, count, got, c.count, c.newest)
		}
	}
}

func TestNoTableHasNoRun(t *testing.T) {
	if at, ok := (timetable.Table{}).Next(noon()); ok {
		t.Errorf("due at %s", at)
	}
	s := timetable.New(timetable.Config{Now: noon})
	s.Set(id("p"), timetable.Table{}, time.Time{}, "")
	if at, ok := s.Next(id("p")); ok {
		t.Errorf("due at %s", at)
	}
}
