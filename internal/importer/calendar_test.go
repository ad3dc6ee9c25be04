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
