package crontab_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"drover/internal/crontab"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := crontab.Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func rule(t *testing.T, text, place string) crontab.Rule {
	t.Helper()
	r, err := crontab.Parse(text, zone(t, place))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dues returns the times between two moments, which are given as they are shown in the zone with its offset.
func dues(t *testing.T, r crontab.Rule, from, to string) []string {
	t.Helper()
	const layout = "2006-01-02 15:04 -0700"
	parse := func(s string) time.Time {
		at, err := time.Parse(layout, s)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	var list []string
	end := parse(to)
	for at, ok := r.Next(parse(from)); ok && !at.After(end); at, ok = r.Next(at) {
		list = append(list, at.Format(layout))
		if len(list) > 200 {
			t.Fatalf("no end: %v", list)
		}
	}
	return list
}

func TestNext(t *testing.T) {
	for text, want := range map[string]string{
		"* * * * *":              "2026-11-20 12:01",
		"*/15 * * * *":           "2026-11-20 12:15",
		"5,50 9-17/4 * * *":      "2026-11-20 13:05",
		"0 0 1 * *":              "2026-12-01 00:00",
		"30 4 * jan MON":         "2027-01-04 04:30",
		"0 0 29 2 *":             "2028-02-29 00:00",
		"0 12 13 * fri":          "2026-11-27 12:00", // either day will do
		"0 12 * * 7":             "2026-11-22 12:00",
		"0 12 * * 0":             "2026-11-22 12:00",
		"0 12 * * mon-wed,sat":   "2026-11-21 12:00",
		"@hourly":                "2026-11-20 13:00",
		"@daily":                 "2026-11-21 00:00",
		"@Midnight":              "2026-11-21 00:00",
		"@weekly":                "2026-11-22 00:00",
		"@monthly":               "2026-12-01 00:00",
		"@yearly":                "2027-01-01 00:00",
		"@annually":              "2027-01-01 00:00",
		"  7   13  *\t* *  ":     "2026-11-20 13:07",
		"CRON_TZ=UTC 0 13 * * *": "2026-11-20 13:00",
		"TZ=UTC @daily":          "2026-11-21 00:00",
		"0 22-2 * * *":           "2026-11-20 22:00",
		"59 23 31 12 *":          "2026-12-31 23:59",
		"0 0 31 4,5 *":           "2027-05-31 00:00",
		"0-10/5,3 12 * * *":      "2026-11-20 12:03",
		"*/7 */5 */3 */2 *":      "2026-11-22 00:00",
	} {
		r, err := crontab.Parse(text, zone(t, "UTC"))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		at, ok := r.Next(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		if got := at.Format("2006-01-02 15:04"); !ok || got != want {
			t.Errorf("%q is next due at %s, want %s", text, got, want)
		}
	}
}

func TestFaultsAreToldTogether(t *testing.T) {
	const how = ", with * for all, lists 1,2, ranges 1-5 and steps */2"
	for text, want := range map[string]string{
		"":            "has 0 fields: expected five (minute, hour, day of month, month, day of week)",
		"x":           "has 1 field: expected five (minute, hour, day of month, month, day of week)",
		"* * * *":     "has 4 fields: expected five (minute, hour, day of month, month, day of week)",
		"0 * * * * *": "has 6 fields: expected five (minute, hour, day of month, month, day of week)",
		"60 * * * *":  `minute "60": expected 0 to 59` + how,
		"-1 24 0 13 8": `minute "-1": expected 0 to 59` + how + `, hour "24": expected 0 to 23` + how +
			`, day of month "0": expected 1 to 31` + how + `, month "13": expected 1 to 12 or jan to dec` + how +
			`, day of week "8": expected 0 to 7 or sun to sat` + how,
		"*/0 * * * *":              `minute "*/0": expected 0 to 59` + how,
		"1, * * * *":               `minute "1,": expected 0 to 59` + how,
		"+1 ? * * *":               `minute "+1": expected 0 to 59` + how + `, hour "?": expected 0 to 23` + how,
		"1-2-3 1/2/3 * * *":        `minute "1-2-3": expected 0 to 59` + how + `, hour "1/2/3": expected 0 to 23` + how,
		"0 0 L * *":                `day of month "L": expected 1 to 31` + how,
		"0 0 * * fri#3":            `day of week "fri#3": expected 0 to 7 or sun to sat` + how,
		"H * * * *":                `minute "H": expected 0 to 59` + how,
		"0 0 * smarch *":           `month "smarch": expected 1 to 12 or jan to dec` + how,
		"0 0 30 2 *":               "never comes due: expected days that their months have",
		"@reboot":                  `"@reboot" is unknown: expected @hourly, @daily, @weekly, @monthly, @yearly or five fields`,
		"@every 5m":                "has 2 fields: expected five (minute, hour, day of month, month, day of week)",
		"CRON_TZ=Mars/Base 0 0 *":  `"Mars/Base" is not a time zone: expected a name of the IANA database, such as Asia/Shanghai or UTC, has 3 fields: expected five (minute, hour, day of month, month, day of week)`,
		"TZ=../../etc/x 0 0 * * *": `"../../etc/x" is not a time zone: expected a name of the IANA database, such as Asia/Shanghai or UTC`,
		"TZ= 0 0 * * *":            `"" is not a time zone: expected a name of the IANA database, such as Asia/Shanghai or UTC`,
		"TZ=Local 0 0 * * *":       `"Local" is not a time zone: expected a name of the IANA database, such as Asia/Shanghai or UTC`,
		"TZ=UTC":                   "has 0 fields: expected five (minute, hour, day of month, month, day of week)",
		strings.Repeat("0", 513):   "is 513 bytes long: expected at most 512",
	} {
		_, err := crontab.Parse(text, nil)
		if err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
	_, err := crontab.Parse("TZ=Asia/Tokyo @daily", zone(t, "Asia/Shanghai"))
	if want := "names the zone Asia/Tokyo although the time zone is set to Asia/Shanghai"; err == nil ||
		err.Error() != want {
		t.Errorf("two zones: %v", err)
	}
	if _, err := crontab.Parse("TZ=Asia/Tokyo @daily", zone(t, "Asia/Tokyo")); err != nil {
		t.Errorf("the same zone twice: %v", err)
	}
}

func TestZeroRuleIsNeverDue(t *testing.T) {
	if at, ok := (crontab.Rule{}).Next(time.Now()); ok {
		t.Errorf("due at %s", at)
	}
}

// TestSpring: Berlin's clock goes from 02:00 +0100 to 03:00 +0200 on 2026-03-29.
func TestSpring(t *testing.T) {
	const from, to = "2026-03-28 12:00 +0100", "2026-03-30 05:00 +0200"
	for text, want := range map[string][]string{
		"30 2 * * *":    {"2026-03-29 03:00 +0200", "2026-03-30 02:30 +0200"},
		"0 3 * * *":     {"2026-03-29 03:00 +0200", "2026-03-30 03:00 +0200"},
		"0 2,3 * * *":   {"2026-03-29 03:00 +0200", "2026-03-30 02:00 +0200", "2026-03-30 03:00 +0200"},
		"*/20 2 29 3 *": {"2026-03-29 03:00 +0200"}, // once, however many fall into the gap
		"59 1 29 * *":   {"2026-03-29 01:59 +0100"},
		"0 */2 29 3 *": {
			"2026-03-29 00:00 +0100", "2026-03-29 03:00 +0200", "2026-03-29 04:00 +0200",
			"2026-03-29 06:00 +0200", "2026-03-29 08:00 +0200", "2026-03-29 10:00 +0200", "2026-03-29 12:00 +0200",
			"2026-03-29 14:00 +0200", "2026-03-29 16:00 +0200", "2026-03-29 18:00 +0200", "2026-03-29 20:00 +0200",
			"2026-03-29 22:00 +0200",
		},
		"30 0,1,4 29 3 *": {"2026-03-29 00:30 +0100", "2026-03-29 01:30 +0100", "2026-03-29 04:30 +0200"},
	} {
		if diff := cmp.Diff(want, dues(t, rule(t, text, "Europe/Berlin"), from, to)); diff != "" {
			t.Errorf("%q -want +got\n%s", text, diff)
		}
	}
	got := dues(t, rule(t, "0,30 * * * *", "Europe/Berlin"), "2026-03-29 01:00 +0100", "2026-03-29 04:00 +0200")
	if diff := cmp.Diff([]string{
		"2026-03-29 01:30 +0100", "2026-03-29 03:00 +0200", "2026-03-29 03:30 +0200",
		"2026-03-29 04:00 +0200",
	}, got); diff != "" {
		t.Errorf("each half hour -want +got\n%s", diff)
	}
}

// TestAutumn: Berlin's clock goes from 03:00 +0200 back to 02:00 +0100 on 2026-10-25.
func TestAutumn(t *testing.T) {
	const from, to = "2026-10-24 12:00 +0200", "2026-10-26 05:00 +0100"
	for text, want := range map[string][]string{
		"30 2 * * *": {"2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"},
		"0 2 * * *":  {"2026-10-25 02:00 +0200", "2026-10-26 02:00 +0100"},
		"0 3 * * *":  {"2026-10-25 03:00 +0100", "2026-10-26 03:00 +0100"},
		"*/30 1-3 25 * *": {
			"2026-10-25 01:00 +0200", "2026-10-25 01:30 +0200", "2026-10-25 02:00 +0200",
			"2026-10-25 02:30 +0200", "2026-10-25 03:00 +0100", "2026-10-25 03:30 +0100",
		},
	} {
		if diff := cmp.Diff(want, dues(t, rule(t, text, "Europe/Berlin"), from, to)); diff != "" {
			t.Errorf("%q -want +got\n%s", text, diff)
		}
	}
	got := dues(t, rule(t, "*/30 * * * *", "Europe/Berlin"), "2026-10-25 01:30 +0200", "2026-10-25 03:00 +0100")
	if diff := cmp.Diff([]string{
		"2026-10-25 02:00 +0200", "2026-10-25 02:30 +0200", "2026-10-25 02:00 +0100",
		"2026-10-25 02:30 +0100", "2026-10-25 03:00 +0100",
	}, got); diff != "" {
		t.Errorf("each half hour -want +got\n%s", diff)
	}
	// In the middle of the second pass, what the first one had done is over.
	got = dues(t, rule(t, "45 2 * * *", "Europe/Berlin"), "2026-10-25 02:10 +0100", "2026-10-26 03:00 +0100")
	if diff := cmp.Diff([]string{"2026-10-26 02:45 +0100"}, got); diff != "" {
		t.Errorf("from the second pass -want +got\n%s", diff)
	}
}

// Zones whose clocks are changed at midnight, by half an hour, or by a day.
func TestStrangeChanges(t *testing.T) {
	for _, c := range []struct {
		text, zone, from, to string
		want                 []string
	}{
		{
			"0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00 -0300", "2018-11-05 12:00 -0200",
			[]string{"2018-11-04 01:00 -0200", "2018-11-05 00:00 -0200"},
		},
		{
			"0 1 4 11 *", "America/Sao_Paulo", "2018-11-03 23:00 -0300", "2018-11-05 12:00 -0200",
			[]string{"2018-11-04 01:00 -0200"},
		},
		{
			"0 12 * * sun", "Africa/Cairo", "2025-04-24 12:00 +0200", "2025-04-30 12:00 +0300",
			[]string{"2025-04-27 12:00 +0300"},
		},
		{
			"0 0 25 4 *", "Africa/Cairo", "2025-04-24 12:00 +0200", "2025-04-30 12:00 +0300",
			[]string{"2025-04-25 01:00 +0300"},
		},
		{
			"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00 +1100", "2026-04-06 12:00 +1030",
			[]string{"2026-04-05 01:45 +1100", "2026-04-06 01:45 +1030"},
		},
		{
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00 +1030", "2026-10-05 12:00 +1100",
			[]string{"2026-10-04 02:30 +1100", "2026-10-05 02:15 +1100"},
		},
		{
			"30 2 30 12 *", "Pacific/Apia", "2011-12-29 12:00 -1000", "2012-01-02 12:00 +1400",
			[]string{"2011-12-31 00:00 +1400"},
		},
	} {
		if diff := cmp.Diff(c.want, dues(t, rule(t, c.text, c.zone), c.from, c.to)); diff != "" {
			t.Errorf("%q in %s -want +got\n%s", c.text, c.zone, diff)
		}
	}
}

// TestEveryMomentOfAYear compares with a clock that is looked at each minute, over all that a year's changes can do.
func TestEveryMomentOfAYear(t *testing.T) {
	for _, place := range []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo",
		"Asia/Shanghai",
	} {
		z := zone(t, place)
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, z)
		hourly, daily := rule(t, "*/30 * * * *", place), rule(t, "30 2 * * *", place)
		next, _ := hourly.Next(start.Add(-1))
		nextDaily, _ := daily.Next(start.Add(-1))
		days := map[string]int{}
		for at := start; at.Year() == 2026; at = at.Add(time.Minute) {
			if due := at.Minute()%30 == 0; due != at.Equal(next) {
				t.Fatalf("%s: at %s due is %v, next is %s", place, at, due, next)
			}
			if at.Equal(next) {
				next, _ = hourly.Next(at)
			}
			if at.Equal(nextDaily) {
				days[at.Format(time.DateOnly)]++
				nextDaily, _ = daily.Next(at)
			}
		}
		if len(days) != 365 {
			t.Errorf("%s: a daily rule was due on %d days", place, len(days))
		}
		for day, n := range days {
			if n != 1 {
				t.Errorf("%s: a daily rule was due %d times on %s", place, n, day)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"* * * * *", "CRON_TZ=Asia/Tokyo 5/10 1-3,7 */2 jan-mar mon", "@daily", "1-0 * * * *",
		"0 0 29 2 1",
	} {
		f.Add(seed)
	}
	after := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := crontab.Parse(text, nil)
		if err != nil {
			return
		}
		first, ok := r.Next(after)
		if !ok || !first.After(after) || first.Second() != 0 && first.Location() == time.UTC {
			t.Errorf("%q is due at %s after %s (%v)", text, first, after, ok)
		}
		if second, ok := r.Next(first); !ok || !second.After(first) {
			t.Errorf("%q is due at %s after %s (%v)", text, second, first, ok)
		}
	})
}

func ExampleParse() {
	berlin, err := crontab.Zone("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	nightly, err := crontab.Parse("30 2 * * *", berlin)
	if err != nil {
		panic(err)
	}
	// The night in which the clock skips the hour from two to three.
	at, _ := nightly.Next(time.Date(2026, 3, 28, 12, 0, 0, 0, berlin))
	fmt.Println(at)
	// Output: 2026-03-29 03:00:00 +0200 CEST
}
