package timetable_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "drover/api/v1"
	"drover/internal/agent/timetable"
	"drover/internal/crontab"
	"drover/internal/process"
)

// rig is a scheduler in virtual time whose wall clock can be set. Inside a bubble all that the goroutines of it touch
// is touched by one of them at a time, between two calls of synctest.Wait.
type rig struct {
	*timetable.Scheduler
	zone *time.Location

	mu     sync.Mutex // the time that passes orders nothing between goroutines
	offset time.Duration
	looks  int
	told   []string
}

// step sets the clock.
func (r *rig) step(by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offset += by
}

// looked returns how often the clock was read.
func (r *rig) looked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looks
}

func (r *rig) tell(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, text)
}

func start(t *testing.T, at time.Time) *rig {
	t.Helper()
	r := &rig{zone: at.Location()}
	r.offset = time.Until(at)
	r.Scheduler = timetable.New(timetable.Config{Now: r.now, Host: "host-a"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, r) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks++
	return time.Now().Add(r.offset).In(r.zone)
}

func (r *rig) stamp(t time.Time) string { return t.In(r.zone).Format("01-02 15:04:05") }

func (r *rig) Due(id process.ID, at time.Time, missed bool) {
	text := id.Name + " due " + r.stamp(at)
	if now := r.stamp(r.now()); now != r.stamp(at) {
		text += " at " + now
	}
	if missed {
		text += " instead"
	}
	r.tell(text)
}

func (r *rig) Missed(id process.ID, from, to time.Time, count int) {
	r.tell(fmt.Sprintf("%s missed %d from %s to %s", id.Name, count, r.stamp(from), r.stamp(to)))
}

// pass lets time go by and returns what was told meanwhile.
func (r *rig) pass(d time.Duration) []string {
	time.Sleep(d) // virtual
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told
	r.told = nil
	return told
}

func (r *rig) want(t *testing.T, d time.Duration, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.pass(d)); diff != "" {
		t.Errorf("after %s -want +got\n%s", d, diff)
	}
}

func id(name string) process.ID { return process.ID{Namespace: "ns", Name: name} }

func table(t *testing.T, s v1.Schedule) timetable.Table {
	t.Helper()
	tt, err := timetable.Parse(&process.Spec{Schedule: &s})
	if err != nil {
		t.Fatal(err)
	}
	return tt
}

func rule(t *testing.T, text string) timetable.Table {
	t.Helper()
	return table(t, v1.Schedule{Cron: text, TimeZone: "UTC"})
}

func every(t *testing.T, d time.Duration) timetable.Table {
	t.Helper()
	return table(t, v1.Schedule{Every: new(v1.Duration(d))})
}

// noon is a Friday in UTC.
func noon() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func TestRunsComeInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noon())
		r.Set(id("a"), rule(t, "*/10 * * * *"), time.Time{}, "")
		r.Set(id("b"), every(t, 7*time.Minute), time.Time{}, "")
		r.want(t, 21*time.Minute+time.Second,
			"b due 11-20 12:07:00", "a due 11-20 12:10:00", "b due 11-20 12:14:00", "a due 11-20 12:20:00",
			"b due 11-20 12:21:00")
		if at, ok := r.Next(id("a")); !ok || r.stamp(at) != "11-20 12:30:00" {
			t.Errorf("a is next due at %s, %v", at, ok)
		}
		r.Drop(id("a"))
		if at, ok := r.Next(id("a")); ok {
			t.Errorf("a is due at %s after it was dropped", at)
		}
		r.Set(id("b"), every(t, 5*time.Minute), time.Time{}, "")
		r.want(t, 11*time.Minute, "b due 11-20 12:26:01", "b due 11-20 12:31:01")
		r.Drop(id("b"))
		r.Drop(id("stranger"))
		r.want(t, 24*time.Hour)
	})
}

func TestAnIdleSchedulerSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noon())
		r.pass(time.Minute)
		before := r.looked()
		if r.want(t, 24*time.Hour); r.looked() != before {
			t.Errorf("the clock was looked at %d times by a scheduler without processes", r.looked()-before)
		}
		r.Set(id("a"), rule(t, "0 0 1 1 *"), time.Time{}, "")
		before = r.looked()
		// Every 30 s, twice: to see what is due, and how long to sleep.
		if r.want(t, time.Hour); r.looked()-before > 250 {
			t.Errorf("the clock was looked at %d times in an hour", r.looked()-before)
		}
	})
}

func TestMissedRuns(t *testing.T) {
	for name, c := range map[string]struct {
		table  string
		away   time.Duration
		missed process.Missed
		want   []string
	}{
		"nothing": {"15 * * * *", 30 * time.Minute, "", nil},
		"one, skipped": {
			"30 11 * * *", time.Hour, "",
			[]string{"p missed 1 from 11-20 11:30:00 to 11-20 11:30:00"},
		},
		"some, skipped": {
			"*/20 * * * *", 90*time.Minute + time.Second, process.MissedSkip,
			[]string{"p missed 4 from 11-20 10:40:00 to 11-20 11:40:00", "p due 11-20 12:00:00"},
		},
		"some, run once": {
			"30 * * * *", 150 * time.Minute, process.MissedRun,
			[]string{"p due 11-20 11:30:00 at 12:00 instead"},
		},
		"the last is hardly late": {
			"*/30 * * * *", 100 * time.Minute, "",
			[]string{"p missed 3 from 11-20 10:30:00 to 11-20 11:30:00", "p due 11-20 12:00:00"},
		},
		"once, and one is hardly late": {
			"*/30 * * * *", 100 * time.Minute, process.MissedRun,
			[]string{"p due 11-20 12:00:00 instead"},
		},
		"a year of minutes": {
			"* * * * *", 365 * 24 * time.Hour, "",
			[]string{"p missed 2999 from 11-20 12:01:00 to 11-20 11:59:00", "p due 11-20 12:00:00"},
		},
		"a year, run once": {
			"15 * * * *", 365 * 24 * time.Hour, process.MissedRun,
			[]string{"p due 11-20 11:15:00 at 12:00 instead"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, noon())
				r.Set(id("p"), rule(t, c.table), noon().Add(-c.away), c.missed)
				got := r.pass(0)
				for i := range got {
					got[i] = strings.Replace(got[i], "at 11-20 12:00:00", "at 12:00", 1)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			})
		})
	}
}

func TestMissedCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noon())
		r.Set(id("once"), every(t, time.Hour), noon().Add(-150*time.Minute), process.MissedRun)
		r.Set(id("skip"), every(t, time.Hour), noon().Add(-150*time.Minute), process.MissedSkip)
		r.want(t, 0, "once due 11-20 11:30:00 at 11-20 12:00:00 instead",
			"skip missed 2 from 11-20 10:30:00 to 11-20 11:30:00")
		r.want(t, 31*time.Minute, "once due 11-20 12:30:00", "skip due 11-20 12:30:00")
		r.Set(id("fast"), table(t, v1.Schedule{Every: new(v1.Duration(time.Second))}), noon().Add(-24*time.Hour), "")
		if got := r.pass(0); len(got) != 2 || got[0] != "fast missed 2999 from 11-19 12:00:01 to 11-20 12:30:59" ||
			got[1] != "fast due 11-20 12:31:00" {
			t.Errorf("got %q", got)
		}
	})
}

// A run whose delay was not over when the agent was restarted is neither lost nor missed.
func TestJitterSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tt := table(t, v1.Schedule{Cron: "0 12 * * *", TimeZone: "UTC", Jitter: new(v1.Duration(3600 * time.Second))})
		r := start(t, noon().Add(-time.Minute))
		r.Set(id("p"), tt, noon().Add(-24*time.Hour), "")
		due, _ := r.Next(id("p"))
		if d := due.Sub(noon()); d < 0 || d > time.Hour {
			t.Fatalf("the delay is %s", d)
		}
		r.want(t, due.Sub(noon())+time.Minute-time.Second)
		r.Set(id("p"), tt, noon().Add(-24*time.Hour), "")
		if again, _ := r.Next(id("p")); !again.Equal(due) {
			t.Errorf("due at %s, and at %s after a restart", due, again)
		}
		if got := r.pass(2 * time.Second); len(got) != 1 || !strings.HasPrefix(got[0], "p due 11-20 12:00:00 at ") {
			t.Errorf("got %q", got)
		}
	})
}

func TestJitterSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tt := table(t, v1.Schedule{Cron: "0 * * * *", TimeZone: "UTC", Jitter: new(v1.Duration(600 * time.Second))})
		var buckets [10]int
		hosts := map[time.Time]bool{}
		for i := range 1000 {
			s := timetable.New(timetable.Config{Now: noon, Host: fmt.Sprint(i % 10)})
			name := id(fmt.Sprint(i / 10))
			s.Set(name, tt, noon().Add(-time.Second), "")
			at, ok := s.Next(name)
			d := at.Sub(noon())
			if !ok || d < 0 || d > 10*time.Minute {
				t.Fatalf("due after %s, %v", d, ok)
			}
			buckets[min(d/time.Minute, 9)]++
			if name == id("7") {
				hosts[at] = true
			}
		}
		for i, n := range buckets {
			if n < 50 || n > 150 {
				t.Errorf("%d of 1,000 runs are in minute %d", n, i)
			}
		}
		if len(hosts) < 9 {
			t.Errorf("ten hosts run the same process at %d times", len(hosts))
		}
	})
}

func TestClockStepsForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noon())
		r.Set(id("cycle"), every(t, 10*time.Minute), time.Time{}, "")
		r.Set(id("minute"), rule(t, "*/7 * * * *"), time.Time{}, process.MissedRun)
		r.Set(id("nightly"), rule(t, "30 2 * * *"), time.Time{}, "")
		r.want(t, 5*time.Minute)
		r.step(24 * time.Hour) // to 12:05 of the next day
		r.want(t, 30*time.Second,
			"minute due 11-21 12:00:00 at 11-21 12:05:30 instead",
			"nightly missed 1 from 11-21 02:30:00 to 11-21 02:30:00")
		// The cycle goes on as if nothing had happened.
		r.want(t, 5*time.Minute, "minute due 11-21 12:07:00", "cycle due 11-21 12:10:00")
	})
}

func TestClockStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noon())
		r.Set(id("cycle"), every(t, 10*time.Minute), time.Time{}, "")
		r.Set(id("noon"), rule(t, "1 12 * * *"), time.Time{}, "")
		r.Set(id("hourly"), rule(t, "*/30 * * * *"), time.Time{}, "")
		r.want(t, 5*time.Minute, "noon due 11-20 12:01:00")
		r.step(-time.Hour) // to 11:05: a correction, after which nothing stalls, and nothing of the day comes twice
		r.want(t, 70*time.Minute,
			"cycle due 11-20 11:10:00", "cycle due 11-20 11:20:00", "cycle due 11-20 11:30:00",
			"hourly due 11-20 11:30:00",
			"cycle due 11-20 11:40:00", "cycle due 11-20 11:50:00", "cycle due 11-20 12:00:00",
			"hourly due 11-20 12:00:00", "cycle due 11-20 12:10:00")
		r.Drop(id("cycle"))
		r.Drop(id("hourly"))
		r.step(-24 * time.Hour) // another day altogether: to 12:15 of the 19th
		r.want(t, 24*time.Hour, "noon due 11-20 12:01:00")
	})
}

// The same where nobody looked: what was dealt with last is in the future.
func TestClockStepsBackWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noon())
		r.Set(id("noon"), rule(t, "30 12 * * *"), noon().Add(30*time.Minute), "")
		r.Set(id("far"), rule(t, "30 12 * * *"), noon().Add(100*time.Hour), "")
		r.Set(id("cycle"), every(t, 20*time.Minute), noon().Add(100*time.Hour), "")
		r.want(t, time.Hour-time.Second, "cycle due 11-20 12:20:00", "far due 11-20 12:30:00",
			"cycle due 11-20 12:40:00")
	})
}

func TestDaylightSaving(t *testing.T) {
	berlin, err := crontab.Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := start(t, time.Date(2026, 3, 29, 0, 0, 0, 0, berlin))
		nightly := table(t, v1.Schedule{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"})
		half := table(t, v1.Schedule{Cron: "CRON_TZ=Europe/Berlin */30 * * * *"})
		r.Set(id("nightly"), nightly, time.Time{}, "")
		r.Set(id("half"), half, time.Time{}, "")
		r.want(t, 2*time.Hour+31*time.Minute,
			"half due 03-29 00:30:00", "half due 03-29 01:00:00", "half due 03-29 01:30:00",
			"half due 03-29 03:00:00", "nightly due 03-29 03:00:00", "half due 03-29 03:30:00")
	})
	synctest.Test(t, func(t *testing.T) {
		r := start(t, time.Date(2026, 10, 25, 1, 45, 0, 0, berlin))
		nightly := table(t, v1.Schedule{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"})
		half := table(t, v1.Schedule{Cron: "*/30 * * * *", TimeZone: "Europe/Berlin"})
		r.Set(id("nightly"), nightly, time.Time{}, "")
		r.Set(id("half"), half, time.Time{}, "")
		r.want(t, 2*time.Hour+20*time.Minute,
			"half due 10-25 02:00:00", "half due 10-25 02:30:00", "nightly due 10-25 02:30:00",
			"half due 10-25 02:00:00", "half due 10-25 02:30:00", "half due 10-25 03:00:00")
	})
}

func TestAThousandProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noon())
		for i := range 1000 {
			r.Set(id(fmt.Sprintf("p%03d", i)), rule(t, fmt.Sprintf("%d * * * *", i%60)), time.Time{}, "")
		}
		got := r.pass(2*time.Hour + time.Second)
		runs := map[string]int{}
		for _, line := range got {
			name, when, _ := strings.Cut(line, " ")
			if strings.Contains(when, " at ") {
				t.Errorf("late: %s", line)
			}
			runs[name]++
		}
		for i := range 1000 {
			if n := runs[fmt.Sprintf("p%03d", i)]; n != 2 {
				t.Errorf("p%03d has run %d times in two hours", i, n)
			}
		}
		for i := range 1000 {
			r.Drop(id(fmt.Sprintf("p%03d", i)))
		}
		r.want(t, time.Hour)
	})
}

// reentrant takes its process off the timetable from within the call.
type reentrant struct {
	s    *timetable.Scheduler
	runs int
}

func (r *reentrant) Due(id process.ID, _ time.Time, _ bool) {
	r.runs++
	r.s.Drop(id)
}

func (r *reentrant) Missed(process.ID, time.Time, time.Time, int) {}

func TestTheSinkMayCallTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &reentrant{}
		sink.s = timetable.New(timetable.Config{Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- sink.s.Run(ctx, sink) }()
		sink.s.Set(id("p"), every(t, time.Minute), time.Time{}, "")
		time.Sleep(time.Hour) // virtual
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || sink.runs != 1 {
			t.Errorf("%d runs: %v", sink.runs, err)
		}
	})
}
