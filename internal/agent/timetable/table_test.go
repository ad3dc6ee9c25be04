package timetable_test

import (
	"errors"
	"testing"
	"time"

	"drover/internal/agent/timetable"
	"drover/internal/process"
)

func TestParseNamesTheField(t *testing.T) {
	for _, c := range []struct {
		p    process.Policy
		s    process.Schedule
		want string
	}{
		{
			process.Policy{},
			process.Schedule{},
			`spec.monitor_policy.crontab_rule is empty: a periodic process (auto_type 0) needs it, such as "*/5 * * * *", or a cycle_time in seconds`,
		},
		{
			process.Policy{Crontab: "@daily", CycleTime: 60},
			process.Schedule{},
			"spec.monitor_policy.crontab_rule and cycle_time are both set: expected one of them",
		},
		{
			process.Policy{CycleTime: -1},
			process.Schedule{},
			"spec.monitor_policy.cycle_time is -1: expected 1 to 2592000 seconds",
		},
		{
			process.Policy{Crontab: "0 24 * * *"},
			process.Schedule{Overlap: "queue", Missed: "all", Jitter: -5, TimeZone: "Berlin"},
			`spec.schedule.time_zone "Berlin" is not a time zone: expected a name of the IANA database, such as Asia/Shanghai or UTC; ` +
				`spec.monitor_policy.crontab_rule "0 24 * * *": hour "24": expected 0 to 23, with * for all, lists 1,2, ranges 1-5 and steps */2; ` +
				`spec.schedule.overlap is "queue": expected skip, wait or replace; spec.schedule.missed is "all": expected skip or run-once; ` +
				`spec.schedule.jitter is -5: expected 1 to 86400, or 0 for the default`,
		},
		{
			process.Policy{CycleTime: 60},
			process.Schedule{Jitter: 60},
			"spec.schedule.jitter is 60: expected less than the cycle_time of 60",
		},
	} {
		_, err := timetable.Parse(c.p, c.s)
		problem, ok := errors.AsType[*process.Error](err)
		if !ok || problem.Fault != process.Failed || problem.Text != c.want {
			t.Errorf("%+v %+v:\n got %v\nwant %s", c.p, c.s, err, c.want)
		}
	}
}

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
