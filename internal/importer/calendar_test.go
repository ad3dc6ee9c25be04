package importer_test

import (
	"fmt"
	"strings"
	"testing"

	"drover/internal/importer"
)

// TestCalendar: calendar expressions of systemd.time(7) as crontab rules, or a comment that says why there is none.
func TestCalendar(t *testing.T) {
	for calendar, want := range map[string]string{
		"daily":                       `"0 0 * * *"`,
		"weekly":                      `"0 0 * * 1"`,
		"quarterly":                   `"0 0 1 1,4,7,10 *"`,
		"03:05":                       `"5 3 * * *"`,
		"*-*-* 06,18:00":              `"0 6,18 * * *"`,
		"*:0/15":                      `"*/15 * * * *"`,
		"*-*-* *:5/10:00":             `"5-59/10 * * * *"`,
		"Mon..Fri 09:00":              `"0 9 * * 1-5"`,
		"Sat,Sun *-*-* 10:30:00":      `"30 10 * * 6,0"`,
		"Mon *-*-* 04:00:00 UTC":      `"0 4 * * 1"`,
		"*-01-01 00:00":               `"0 0 1 1 *"`,
		"*-*-1..7 12:00 Europe/Paris": `"0 12 1-7 * *"`,
		"Mon *-*-1..7 04:00":          "a day of the week and a day of the month at once",
		"2027-01-01":                  "has no years",
		"*-*-* 00:00:30":              "has no seconds",
		"*-*~1 00:00":                 "cannot read its part",
		"every day":                   "cannot read its",
	} {
		r := importer.Systemd([]importer.Unit{
			{Name: "a.timer", Files: []importer.Text{{Data: fmt.Appendf(nil, "[Timer]\nOnCalendar=%s\n", calendar)}}},
			{Name: "a.service", Files: []importer.Text{{Data: []byte("[Service]\nType=oneshot\nExecStart=/bin/a\n")}}},
		}, []string{"h"}, facts())
		text, err := r.Write("n")
		if err != nil {
			t.Fatal(err)
		}
		valid(t, calendar, text)
		if !strings.Contains(strings.ReplaceAll(string(text), "\n  #  ", ""), want) {
			t.Errorf("%s: want %s in\n%s", calendar, want, text)
		}
	}
}

// TestLostTimetables: whatever of a timer is lost, a oneshot runs by a timetable or once, and never becomes a process
// that drover keeps running.
func TestLostTimetables(t *testing.T) {
	for _, c := range []struct {
		timer, lost string
		timed       bool
	}{
		{timer: "OnUnitActiveSec=1h", timed: true},
		{timer: "OnUnitActiveSec=30d", timed: true},
		{timer: "OnUnitActiveSec=31d", lost: "schedule.every is lost"},
		{timer: "OnUnitActiveSec=1month", lost: "schedule.every is lost"},
		{timer: "OnUnitInactiveSec=5week", lost: "schedule.every is lost"},
		{timer: "OnUnitActiveSec=1y\nPersistent=true\nRandomizedDelaySec=1h", lost: "schedule.every is lost"},
		{timer: "OnCalendar=*-02-30", lost: "schedule.cron is lost"},
		{timer: "OnCalendar=*-*-* 25:00\nPersistent=true", lost: "schedule.cron is lost"},
		{timer: "OnCalendar=*-02-30\nOnUnitActiveSec=1h", lost: "schedule.cron is lost"},
		{timer: "OnCalendar=daily Mars/Base", lost: "schedule.time_zone is lost", timed: true},
		{timer: "OnCalendar=daily\nRandomizedDelaySec=2month", lost: "schedule.jitter is lost", timed: true},
		{timer: "OnCalendar=2027-01-01", lost: "has no years"},
		{timer: "OnUnitActiveSec=infinity", lost: "OnUnitActiveSec=infinity"},
		{timer: "OnUnitActiveSec=0", lost: "OnUnitActiveSec=0"},
		{timer: "OnUnitActiveSec=soon", lost: "OnUnitActiveSec=soon"},
		{timer: "OnBootSec=5min", lost: "OnBootSec=5min"},
		{timer: "", lost: "nothing starts the process"},
		{timer: "Unit=b.service", lost: "a.timer is left out"},
	} {
		r := importer.Systemd([]importer.Unit{
			{Name: "a.timer", Files: []importer.Text{{Data: []byte("[Timer]\n" + c.timer + "\n")}}},
			{Name: "a.service", Files: []importer.Text{{
				Data: []byte("[Service]\nType=oneshot\nExecStart=/bin/a\nRestart=on-failure\nRuntimeMaxSec=60\n"),
			}}},
		}, []string{"h"}, facts())
		text, err := r.Write("n")
		if err != nil {
			t.Fatal(err)
		}
		valid(t, c.timer, text)
		if len(r.Processes) != 1 {
			t.Errorf("%q: %d processes in\n%s", c.timer, len(r.Processes), text)
			continue
		}
		if p := r.Processes[0]; p.Once == c.timed || (p.Schedule != nil) != c.timed || p.Restart != nil {
			t.Errorf("%q: want by a timetable %v, and else once:\n%s", c.timer, c.timed, text)
		}
		if told := strings.ReplaceAll(string(text), "\n  #  ", ""); !strings.Contains(told, c.lost) ||
			!c.timed && !strings.Contains(told, "nothing starts the process") && !strings.Contains(told, "is left out") {
			t.Errorf("%q: want %q, and that nothing starts the process:\n%s", c.timer, c.lost, text)
		}
	}
}

// TestTwoTimers: the second timer of a service is lost, and the file says so.
func TestTwoTimers(t *testing.T) {
	timer := func(name, every string) importer.Unit {
		return importer.Unit{Name: name, Files: []importer.Text{{
			Data: []byte("[Timer]\nUnit=a.service\nOnUnitActiveSec=" + every + "\n"),
		}}}
	}
	r := importer.Systemd([]importer.Unit{
		timer("a.timer", "1h"), timer("b.timer", "2h"),
		{Name: "a.service", Files: []importer.Text{{Data: []byte("[Service]\nType=oneshot\nExecStart=/bin/a\n")}}},
	}, []string{"h"}, facts())
	text, err := r.Write("n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"b.timer is left out", "every: 1h"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}
